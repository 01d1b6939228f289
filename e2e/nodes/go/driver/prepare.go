package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// call is a line of calls.jsonl.
type call struct {
	Time      time.Time  `json:"time"`
	Call      string     `json:"call"` // prepare or unprepare
	UID       types.UID  `json:"uid"`  // of the claim
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Devices   []prepared `json:"devices,omitempty"` // of prepare
	Error     string     `json:"error,omitempty"`
}

// prepared is a device of a call.
type prepared struct {
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	Share   string `json:"share,omitempty"`
	Admin   bool   `json:"admin,omitempty"`
}

// variable makes a name of a driver or device a part of the name of an environment variable.
var variable = strings.NewReplacer("-", "_", ".", "_")

// PrepareResourceClaims is called before the first container of a pod starts, again after each failure, and again when
// the kubelet restarts: it is idempotent. A driver of real devices refuses one that another claim has prepared.
func (d *driver) PrepareResourceClaims(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(ctx, claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
		line := call{Call: "prepare", UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
		for _, each := range d.allocated(claim) {
			line.Devices = append(line.Devices, prepared{
				Request: each.Request, Pool: each.Pool, Device: each.Device, Share: share(each),
				Admin: each.AdminAccess != nil && *each.AdminAccess,
			})
		}
		if err := d.write(line, err); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// UnprepareResourceClaims is called when the last pod of a claim has ended. The claim may be gone by then.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := d.fault("unprepare")
		if err == nil {
			// Nothing to remove means that it was done before: no error.
			if err = os.Remove(d.cdiFile(claim.UID)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		results[claim.UID] = err
		line := call{Call: "unprepare", UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
		if err := d.write(line, err); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (d *driver) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	if err := d.fault("prepare"); err != nil {
		return nil, err
	}
	attributes, err := d.attributes()
	if err != nil {
		return nil, err
	}
	edits, err := read[map[string]cdi.ContainerEdits](filepath.Join(d.folder, "edits.yaml"))
	if err != nil {
		return nil, err
	}
	spec := cdi.Spec{Version: "0.6.0", Kind: d.name + "/device"}
	var devices []kubeletplugin.Device
	for index, each := range d.allocated(claim) {
		// A CDI device gets a name that is never used again, since runtimes cache the files.
		name := fmt.Sprintf("%s-%d", claim.UID, index)
		value := strings.TrimSuffix(strings.Join([]string{d.name, each.Pool, each.Device, share(each)}, "/"), "/")
		given := edits[each.Device] // real devices have deviceNodes and mounts
		// Two drivers of a claim must not set the same variable.
		given.Env = append([]string{"DEVICE_" + variable.Replace(d.name+"_"+name) + "=" + value}, given.Env...)
		spec.Devices = append(spec.Devices, cdi.Device{Name: name, ContainerEdits: given})
		devices = append(devices, kubeletplugin.Device{
			// The kubelet gives a container the devices of the requests that the container names.
			Requests:     []string{each.Request},
			PoolName:     each.Pool,
			DeviceName:   each.Device,
			ShareID:      each.ShareID,
			CDIDeviceIDs: []string{spec.Kind + "=" + name},
			Metadata:     &kubeletplugin.DeviceMetadata{Attributes: attributes[each.Device]},
		})
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if err := replace(d.cdiFile(claim.UID), text); err != nil {
		return nil, err
	}
	return devices, d.reportPrepared(ctx, claim)
}

// allocated gives the devices of the claim that are this driver's and on this node: other results are other drivers'.
func (d *driver) allocated(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	var found []resourceapi.DeviceRequestAllocationResult
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, each := range claim.Status.Allocation.Devices.Results {
		if each.Driver == d.name && each.Pool == d.node {
			found = append(found, each)
		}
	}
	return found
}

// attributes gives what is published of each device. One that was unplugged since has none.
func (d *driver) attributes() (map[string]map[string]resourceapi.DeviceAttribute, error) {
	specs, err := d.resources()
	found := map[string]map[string]resourceapi.DeviceAttribute{}
	for _, spec := range specs {
		for _, device := range spec.Devices {
			found[device.Name] = map[string]resourceapi.DeviceAttribute{}
			for name, value := range device.Attributes {
				found[device.Name][string(name)] = value
			}
		}
	}
	return found, err
}

func (d *driver) cdiFile(claim types.UID) string {
	return filepath.Join(d.cdi, fmt.Sprintf("%s-%s.json", d.name, claim))
}

// fault fails a call where a file of the folder says so.
func (d *driver) fault(name string) error {
	path := filepath.Join(d.folder, name)
	if text, err := os.ReadFile(path + ".fail"); err == nil {
		return errors.New(string(text))
	}
	if text, err := os.ReadFile(path + ".fail-once"); err == nil {
		return errors.Join(errors.New(string(text)), os.Remove(path+".fail-once"))
	}
	return nil
}

// write appends a line to the log of calls: with one write, since two instances may do so at once.
func (d *driver) write(line call, failed error) error {
	line.Time = time.Now()
	if failed != nil {
		line.Error = failed.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(d.folder, "calls.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// replace writes a file as a whole: no reader meets a half of it.
func replace(path string, text []byte) error {
	staged := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(staged, text, 0o644); err != nil {
		return err
	}
	return os.Rename(staged, path)
}

func share(result resourceapi.DeviceRequestAllocationResult) string {
	if result.ShareID == nil {
		return ""
	}
	return string(*result.ShareID)
}
