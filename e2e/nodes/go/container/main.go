// The one program of the one image: it is the pause of every sandbox and the container of every test pod.
//
// It prints one JSON line with its environment and the devices that drivers gave it, and waits for SIGTERM, upon which
// it exits with 0. With -after it exits by itself after so many seconds, with the status of -exit.
package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// devicePrefix begins the names of the variables by which the driver names a prepared device.
const devicePrefix = "DEVICE_"

// line is what the program prints.
type line struct {
	Environment map[string]string `json:"environment"`
	Devices     []string          `json:"devices"`
}

func main() {
	after := flag.Float64("after", -1, "exit after so many `seconds`")
	status := flag.Int("exit", 0, "with which `status`")
	flag.Parse()

	// Before the line is printed: who has read it may send the signal at once.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	if err := json.NewEncoder(os.Stdout).Encode(describe(os.Environ())); err != nil {
		os.Exit(1)
	}
	var over <-chan time.Time // nil: never
	if *after >= 0 {
		over = time.After(time.Duration(*after * float64(time.Second)))
	}
	select {
	case <-ends:
	case <-over:
		os.Exit(*status)
	}
}

func describe(environment []string) line {
	found := line{Environment: map[string]string{}, Devices: []string{}}
	for _, each := range environment {
		name, value, _ := strings.Cut(each, "=")
		found.Environment[name] = value
		if strings.HasPrefix(name, devicePrefix) {
			found.Devices = append(found.Devices, value)
		}
	}
	slices.Sort(found.Devices)
	return found
}
