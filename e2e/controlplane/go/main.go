// One binary that is a whole Kubernetes control plane: the real components, linked from their Go modules and chosen
// by the first argument. A test then needs no container image, no download of a release and no container engine.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, also where the machine has no zone files

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client's own series in /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info in /metrics
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerrors "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// extra holds subcommands that other files of this package add in their init; each gets the arguments after its name
// and returns the exit code.
var extra = map[string]func(args []string) int{}

var components = map[string]func(args []string) int{
	"etcd":                    runEtcd,
	"kube-apiserver":          runCobra(apiserver.NewAPIServerCommand),
	"kube-controller-manager": runCobra(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          runCobra(newScheduler),
	"kubectl":                 runKubectl,
}

// endWithStdin, when set in the environment, ties this process to whoever holds the other end of its standard input: a
// parent that was killed without a chance to clean up takes its components along.
const endWithStdin = "DOVETAIL_END_WITH_STDIN"

func main() {
	if os.Getenv(endWithStdin) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if _, isComponent := components[name]; !isComponent {
		if len(args) == 0 {
			os.Exit(usage())
		}
		name, args = args[0], args[1:]
	}
	// The components read os.Args themselves (cobra, etcd's flags, kubectl's plugins).
	os.Args = append([]string{name}, args...)
	if run, ok := components[name]; ok {
		os.Exit(run(args))
	}
	if run, ok := extra[name]; ok {
		os.Exit(run(args))
	}
	os.Exit(usage())
}

func usage() int {
	var names []string
	for _, commands := range []map[string]func([]string) int{components, extra} {
		for name := range commands {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane (%s) [arguments]\n", strings.Join(names, " | "))
	return 2
}

// runCobra takes a constructor and not a command: building one registers metrics and flags of the whole process.
func runCobra(newCommand func() *cobra.Command) func([]string) int {
	return func([]string) int { return cli.Run(newCommand()) }
}

// newScheduler leaves out the constructor's options, which add plugins of other people's builds.
func newScheduler() *cobra.Command { return scheduler.NewSchedulerCommand() }

func runEtcd([]string) int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl([]string) int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlerrors.CheckErr(err)
	}
	return 0
}
