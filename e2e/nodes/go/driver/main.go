// A DRA driver for devices that a file lists. It does what the driver of real devices does on a node, with the same
// library, and is short enough to be read as the example of one. Devices exist only in the file, unless another one
// gives them device nodes of the machine:
//
//	main.go     starts: a client, the library, publishing; publishes again upon SIGHUP
//	prepare.go  the kubelet's calls: a claim's devices become CDI devices, and are given back
//	status.go   what the driver tells of devices: conditions and data in status.devices, health
//
// A test steers it by files in one folder, and reads there what it did:
//
//	resources.yaml                      slices: [{devices: [...]}, {sharedCounters: [...]}], as in a ResourceSlice's spec
//	prepare.fail, unprepare.fail        the call fails with the file's text for as long as there is one
//	prepare.fail-once, ...              the call fails once, and the file is removed
//	edits.yaml                          by device: what containers get, as containerEdits of CDI 0.6: deviceNodes, mounts
//	status.yaml                         by device: conditions, data, networkData, for status.devices once prepared
//	binding.fail                        binding failure conditions become true, in place of binding conditions
//	health.yaml                         by device: why it is unhealthy
//	calls.jsonl                         one line for each claim of each call
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	metadata "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// driver has no state in memory that a call depends on: after a restart, or in another instance during a rolling
// update, the CDI files in cdi say what is prepared.
type driver struct {
	name, node, folder, cdi string
	client                  kubernetes.Interface
}

func main() {
	d := driver{}
	var kubeconfig, pod string
	flag.StringVar(&d.name, "name", "gpu.example.com", "`name` of the driver")
	flag.StringVar(&d.node, "node", "", "`name` of the node")
	flag.StringVar(&d.folder, "folder", "", "`folder` with the files that steer the driver")
	flag.StringVar(&d.cdi, "cdi", kubeletplugin.DefaultCDIDir, "`folder` in which the container runtime finds CDI files")
	flag.StringVar(&kubeconfig, "kubeconfig", "", "`file` with the way to the API server")
	flag.StringVar(&pod, "pod", "", "`UID` of the pod that the driver runs in, for rolling updates: two instances at once")
	flag.Parse()
	if err := d.run(kubeconfig, types.UID(pod)); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func (d *driver) run(kubeconfig string, pod types.UID) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)

	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	if d.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	for _, folder := range []string{d.cdi, filepath.Join(kubeletplugin.KubeletPluginsDir, d.name)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := d.watchClaims(ctx); err != nil {
		return err
	}
	// From here on the kubelet finds the driver's registration socket and calls it.
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.KubeClient(d.client),
		kubeletplugin.NodeName(d.node),
		kubeletplugin.DriverName(d.name),
		kubeletplugin.RollingUpdate(pod),
		// The library mounts a file into each container that tells of its devices what prepare says in Metadata.
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadata.SchemeGroupVersion}),
		kubeletplugin.CDIDirectory(d.cdi),
		kubeletplugin.GRPCVerbosity(0), // every call of the kubelet is in the log
	)
	if err != nil {
		return err
	}
	// A driver that is told to end says goodbye to the kubelet. Its slices stay: the kubelet removes them after 30 s
	// unless it, or the next instance, is back by then.
	defer helper.Stop()
	for {
		if err := d.publish(ctx, helper); err != nil {
			klog.FromContext(ctx).Error(err, "publishing failed; what was published before stays")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		}
	}
}

// publish replaces the node's pool. The library writes the slices in the background, counts the pool's generation up,
// and writes them again when somebody deletes them, as a kubelet does when it starts.
func (d *driver) publish(ctx context.Context, helper *kubeletplugin.Helper) error {
	specs, err := d.resources()
	if err != nil {
		return err
	}
	var pool resourceslice.Pool
	for _, spec := range specs {
		pool.Slices = append(pool.Slices, resourceslice.Slice{
			Devices:                spec.Devices,
			SharedCounters:         spec.SharedCounters,
			PerDeviceNodeSelection: spec.PerDeviceNodeSelection,
			PartitionTypeAttribute: spec.PartitionTypeAttribute,
			SkipNodeOperations:     spec.SkipNodeOperations,
		})
	}
	pools := map[string]resourceslice.Pool{d.node: pool}
	return helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools})
}

// resources reads the devices. The driver of real devices asks the hardware here.
func (d *driver) resources() ([]resourceapi.ResourceSliceSpec, error) {
	var found struct {
		Slices []resourceapi.ResourceSliceSpec `json:"slices"`
	}
	text, err := os.ReadFile(filepath.Join(d.folder, "resources.yaml"))
	if err != nil {
		return nil, err
	}
	err = yaml.UnmarshalStrict(text, &found)
	return found.Slices, err
}

// HandleError is called for errors in the background: slices that the API server refuses are an author's mistake.
func (d *driver) HandleError(ctx context.Context, err error, message string) {
	utilruntime.HandleErrorWithContext(ctx, err, message)
}
