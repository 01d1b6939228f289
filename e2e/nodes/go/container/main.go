// The one program of the one image: it is the pause of every sandbox and the container of every test pod.
//
// It prints one JSON line with its environment and the devices that drivers gave it, and waits for SIGTERM, upon which
// it exits with 0. With -after it exits by itself after so many seconds, with the status of -exit. With -metadata the
// line has the files in which drivers describe the devices: a line of more than 16 KiB would reach the log in pieces.
// With -open it has what came of opening some paths: whether a device node is there, and the cgroup lets it be used.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// devicePrefix begins the names of the variables by which the driver names a prepared device.
const devicePrefix = "DEVICE_"

// metadataFolder has a file for each request of a claim; see k8s.io/dynamic-resource-allocation/api/metadata.
const metadataFolder = "/var/run/kubernetes.io/dra-device-attributes"

// line is what the program prints.
type line struct {
	Environment map[string]string `json:"environment"`
	Devices     []string          `json:"devices"`
	Metadata    []json.RawMessage `json:"metadata,omitempty"`
	Opened      map[string]string `json:"opened,omitempty"`
}

func main() {
	after := flag.Float64("after", -1, "exit after so many `seconds`")
	status := flag.Int("exit", 0, "with which `status`")
	reads := flag.Bool("metadata", false, "print device metadata")
	paths := flag.String("open", "", "open these `paths`, divided by commas, and print of each the error, empty if none")
	flag.Parse()

	printed := describe(os.Environ())
	if *paths != "" {
		printed.Opened = open(strings.Split(*paths, ","))
	}
	if *reads {
		var err error
		if printed.Metadata, err = metadata(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	// Before the line is printed: who has read it may send the signal at once.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	if err := json.NewEncoder(os.Stdout).Encode(printed); err != nil {
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

// open tries to read and write, as who uses a device does.
func open(paths []string) map[string]string {
	found := map[string]string{}
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			found[path] = err.Error()
			continue
		}
		found[path] = ""
		_ = file.Close()
	}
	return found
}

// metadata reads the first object of each file: the newest version of the format.
func metadata() ([]json.RawMessage, error) {
	var found []json.RawMessage
	err := filepath.WalkDir(metadataFolder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		var newest json.RawMessage
		err = json.NewDecoder(file).Decode(&newest)
		found = append(found, newest)
		return errors.Join(err, file.Close())
	})
	return found, err
}
