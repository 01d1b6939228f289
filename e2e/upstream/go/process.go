// Starts a scheduler as a process in place of the one that Kubernetes' integration tests start in their own process.
//
// This file becomes part of a copy of the package test/integration/util; source.py says which lines there call it.
// While the environment names no command, those tests start what they always start.
package util

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const (
	commandVariable = "DOVETAIL_UPSTREAM_SCHEDULER" // a JSON array; the kubeconfig and a JSON file are appended
	folderVariable  = "DOVETAIL_UPSTREAM_FOLDER"    // for kubeconfigs, configurations and logs
	readySeconds    = 120
	graceSeconds    = 10
)

var starts atomic.Int32

// passing are plugins of tests that note their calls, or that refuse pods in a few tests, which known.toml lists.
var passing = map[string]bool{"token-filter": true, "mockBindPlugin": true, "mockPGPostFilterPlugin": true}

// processConfig is what the process is told: where to serve /readyz, and what the test's configuration asks for.
type processConfig struct {
	Address  string           `json:"address"`
	Profiles []processProfile `json:"profiles"`
}

type processProfile struct {
	SchedulerName         string  `json:"schedulerName"`
	BindingTimeoutSeconds float64 `json:"bindingTimeoutSeconds,omitempty"`
	Preemption            bool    `json:"preemption"`
}

// schedulerTest is what this file needs of a ktesting.TContext, whose package differs between releases.
type schedulerTest interface {
	context.Context
	Name() string
	RESTConfig() *restclient.Config
	Fatalf(format string, arguments ...any)
	Skip(arguments ...any)
}

// processFactory is what a test gets for the informers of its scheduler: its shutdown waits for the process's end.
type processFactory struct {
	informers.SharedInformerFactory
	ended <-chan struct{}
}

func (factory processFactory) Shutdown() { <-factory.ended }

// IsProcess says whether the scheduler is a process of its own.
func IsProcess() bool { return os.Getenv(commandVariable) != "" }

// startConfigured takes the place of StartScheduler.
func startConfigured(test schedulerTest, config *kubeschedulerconfig.KubeSchedulerConfiguration, registry frameworkruntime.Registry) informers.SharedInformerFactory {
	if len(registry) > 0 {
		test.Skip("adds plugins of its own to the scheduler")
	}
	ended, err := startProcess(test, test.Name(), test.RESTConfig(), profilesOf(config.Profiles))
	if err != nil {
		test.Fatalf("starting the scheduler: %v", err)
	}
	return processFactory{ended: ended}
}

// startBeside starts the process beside a scheduler that is there for its cache and queue only: see takeNothing.
func startBeside(ctx context.Context, t *testing.T, testCtx *TestContext) {
	reason := looksInside(testCtx.Scheduler)
	if reason == "" {
		reason = emulates()
	}
	if reason != "" {
		testCtx.SchedulerCloseFn() // or its goroutines would outlive the test
		t.Skip(reason)
	}
	var profiles []processProfile
	for name, framework := range testCtx.Scheduler.Profiles {
		profiles = append(profiles, processProfile{SchedulerName: name, Preemption: preempts(framework.ListPlugins())})
	}
	ctx, cancel := context.WithCancel(ctx)
	ended, err := startProcess(ctx, t.Name(), testCtx.KubeConfig, profiles)
	if err != nil {
		cancel()
		t.Fatalf("starting the scheduler: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// takeNothing makes a scheduler decide about no pod, while its informers go on filling its cache and its queue.
func takeNothing[T any](ctx context.Context, next *func(klog.Logger) (T, error)) {
	*next = func(klog.Logger) (T, error) {
		var nothing T
		<-ctx.Done()
		return nothing, ctx.Err()
	}
}

func looksInside(sched *scheduler.Scheduler) string {
	if len(sched.Extenders) > 0 {
		return "configures an extender"
	}
	known := plugins.NewInTreeRegistry()
	for _, framework := range sched.Profiles {
		for _, name := range framework.ListPlugins().Names() {
			if _, ok := known[name]; !ok && !passing[name] {
				return "adds plugins of its own to the scheduler"
			}
		}
	}
	return ""
}

// emulates says so where the test has its API server pretend to be of a release that has no resource.k8s.io/v1.
func emulates() string {
	emulated := utilfeature.DefaultMutableFeatureGate.EmulationVersion()
	if emulated.AtLeast(version.MajorMinor(1, 34)) {
		return ""
	}
	return fmt.Sprintf("emulates Kubernetes %s, which is not supported", emulated)
}

func profilesOf(profiles []kubeschedulerconfig.KubeSchedulerProfile) []processProfile {
	var found []processProfile
	for _, profile := range profiles {
		one := processProfile{SchedulerName: profile.SchedulerName, Preemption: preempts(profile.Plugins)}
		for _, plugin := range profile.PluginConfig {
			arguments, ok := plugin.Args.(*kubeschedulerconfig.DynamicResourcesArgs)
			if ok && arguments.BindingTimeout != nil {
				one.BindingTimeoutSeconds = arguments.BindingTimeout.Seconds()
			}
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		found = append(found, processProfile{SchedulerName: v1.DefaultSchedulerName, Preemption: true})
	}
	return found
}

func preempts(configured *kubeschedulerconfig.Plugins) bool {
	if configured == nil {
		return true
	}
	for _, disabled := range configured.PostFilter.Disabled {
		if disabled.Name == "*" || disabled.Name == defaultpreemption.Name {
			return false
		}
	}
	for _, set := range []kubeschedulerconfig.PluginSet{configured.MultiPoint, configured.PostFilter} {
		for _, enabled := range set.Enabled {
			if enabled.Name == defaultpreemption.Name {
				return true
			}
		}
	}
	return false
}

// startProcess returns once the process is ready. It ends with the context; then the channel is closed.
func startProcess(ctx context.Context, name string, server *restclient.Config, profiles []processProfile) (<-chan struct{}, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	stem := filepath.Join(os.Getenv(folderVariable), fmt.Sprintf("%03d-%s", starts.Add(1), strings.ReplaceAll(name, "/", "-")))
	kubeconfig, configuration := stem+".kubeconfig", stem+".json"
	if err := writeKubeconfig(server, kubeconfig); err != nil {
		return nil, err
	}
	content, err := json.Marshal(processConfig{Address: address, Profiles: profiles})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(configuration, content, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(stem + ".log")
	if err != nil {
		return nil, err
	}
	var command []string
	if err := json.Unmarshal([]byte(os.Getenv(commandVariable)), &command); err != nil {
		return nil, err
	}
	process := exec.Command(command[0], append(command[1:], kubeconfig, configuration)...)
	process.Stdout, process.Stderr = log, log
	process.Env = append(os.Environ(), "DOVETAIL_END_WITH_STDIN=1")
	if _, err := process.StdinPipe(); err != nil { // never written to: it closes when this process dies
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait()
		_ = log.Close()
	}()
	go endProcess(ctx, process, ended)
	return ended, waitUntilReady(ctx, address, ended, log.Name())
}

func endProcess(ctx context.Context, process *exec.Cmd, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = process.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(graceSeconds * time.Second):
		_ = process.Process.Kill()
	}
}

func waitUntilReady(ctx context.Context, address string, ended <-chan struct{}, log string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(readySeconds * time.Second)
	for {
		answer, err := client.Get("http://" + address + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("the process ended before it was ready, see %s", log)
		case <-deadline:
			return fmt.Errorf("the process is not ready after %d s, see %s", readySeconds, log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func writeKubeconfig(server *restclient.Config, path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server:                   server.Host,
		TLSServerName:            server.TLSClientConfig.ServerName,
		InsecureSkipTLSVerify:    server.TLSClientConfig.Insecure,
		CertificateAuthority:     server.TLSClientConfig.CAFile,
		CertificateAuthorityData: server.TLSClientConfig.CAData,
	}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: server.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
