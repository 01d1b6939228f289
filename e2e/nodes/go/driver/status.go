package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// deviceStatus is an entry of status.yaml, with the fields of AllocatedDeviceStatus.
type deviceStatus struct {
	Conditions  []metaac.ConditionApplyConfiguration            `json:"conditions"`
	Data        *runtime.RawExtension                           `json:"data"`
	NetworkData *resourceac.NetworkDeviceDataApplyConfiguration `json:"networkData"`
}

// watchClaims tells schedulers when devices with binding conditions are ready: a pod is bound only afterwards. Here
// they are at once; a driver of real devices attaches them meanwhile.
func (d *driver) watchClaims(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(d.client, 0)
	tell := func(object any) {
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok || !d.awaitsBinding(claim) {
			return
		}
		if err := d.report(ctx, claim, nil); err != nil {
			klog.FromContext(ctx).Error(err, "binding conditions were not reported", "claim", klog.KObj(claim))
		}
	}
	_, err := factory.Resource().V1().ResourceClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, object any) { tell(object) },
	})
	factory.Start(ctx.Done())
	return err
}

func (d *driver) awaitsBinding(claim *resourceapi.ResourceClaim) bool {
	for _, each := range d.allocated(claim) {
		if len(each.BindingConditions) > 0 && len(claim.Status.Devices) == 0 {
			return true
		}
	}
	return false
}

// reportPrepared writes what status.yaml says of the claim's devices.
func (d *driver) reportPrepared(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	statuses, err := read[map[string]deviceStatus](filepath.Join(d.folder, "status.yaml"))
	if err != nil || len(statuses) == 0 {
		return err
	}
	return d.report(ctx, claim, statuses)
}

// report applies the entries of status.devices that are this driver's, as a whole and under the driver's name: other
// drivers' entries stay.
func (d *driver) report(ctx context.Context, claim *resourceapi.ResourceClaim, statuses map[string]deviceStatus) error {
	_, err := os.Stat(filepath.Join(d.folder, "binding.fail"))
	fails := err == nil
	status := resourceac.ResourceClaimStatus()
	for _, each := range d.allocated(claim) {
		entry := resourceac.AllocatedDeviceStatus().WithDriver(each.Driver).WithPool(each.Pool).WithDevice(each.Device)
		if each.ShareID != nil {
			entry.WithShareID(string(*each.ShareID))
		}
		met := each.BindingConditions
		if fails {
			met = each.BindingFailureConditions
		}
		for _, name := range met {
			entry.WithConditions(metaac.Condition().WithType(name).WithStatus(metav1.ConditionTrue).
				WithReason("Driver").WithMessage("").WithLastTransitionTime(metav1.Now()))
		}
		said := statuses[each.Device]
		for index := range said.Conditions {
			entry.WithConditions(said.Conditions[index].WithLastTransitionTime(metav1.Now()))
		}
		entry.NetworkData = said.NetworkData
		if said.Data != nil {
			entry.WithData(*said.Data)
		}
		status.WithDevices(entry)
	}
	applied := resourceac.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithStatus(status)
	options := metav1.ApplyOptions{FieldManager: d.name, Force: true}
	_, err = d.client.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, applied, options)
	return err
}

// WatchHealthStatus tells the kubelet which devices are unhealthy, for allocatedResourcesStatus of pods: at once after
// a change, and every ten seconds, since the kubelet takes silence for an unknown health.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	var last []byte
	var sent time.Time
	for {
		path := filepath.Join(d.folder, "health.yaml")
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(text, last) || time.Since(sent) > 10*time.Second {
			last, sent = text, time.Now()
			select {
			case <-ctx.Done():
				return nil
			case reports <- d.health(path):
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d *driver) health(path string) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	specs, err := d.resources()
	unhealthy, unread := read[map[string]string](path)
	if errors.Join(err, unread) != nil {
		return report // a file that is being written; the next one will be whole
	}
	for _, spec := range specs {
		for _, device := range spec.Devices {
			said := kubeletplugin.DeviceHealth{
				PoolName: d.node, DeviceName: device.Name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: time.Now(),
			}
			if message, ok := unhealthy[device.Name]; ok {
				said.Health, said.Message = kubeletplugin.HealthStatusUnhealthy, message
			}
			report.Devices = append(report.Devices, said)
		}
	}
	return report
}

// read decodes a YAML file; where there is none, nothing is said.
func read[T any](path string) (T, error) {
	var found T
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &found)
	}
	return found, err
}
