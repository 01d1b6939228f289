// Karpenter with its kwok provider, whose instance types also have devices.
//
// The provider's own main leaves DynamicResources of its instance types empty, so that no pod with claims gets a node.
// The file in SLICE_TEMPLATES_FILE_PATH has them: a JSON object from the name of an instance type to the specs of the
// ResourceSlices that a node of this type publishes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"unique"

	"github.com/samber/lo"
	resourcev1 "k8s.io/api/resource/v1"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	ctx, op := operator.NewOperator()
	instanceTypes := lo.Must(kwok.ConstructInstanceTypes(ctx))
	lo.Must0(addTemplates(instanceTypes, os.Getenv("SLICE_TEMPLATES_FILE_PATH")))

	provider := kwok.NewCloudProvider(ctx, op.GetClient(), instanceTypes)
	decorated := overlay.Decorate(provider, op.GetClient(), op.InstanceTypeStore)
	repair := lo.Must(health.NewRepairPolicyMatcher(ctx, decorated))
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated, state.WithRepairPolicyMatcher(repair))
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, provider, cluster,
		op.InstanceTypeStore, op.PredictionStore,
	)...).Start(ctx)
}

func addTemplates(instanceTypes []*cloudprovider.InstanceType, path string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var slices map[string][]resourcev1.ResourceSliceSpec
	if err := json.Unmarshal(content, &slices); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, instanceType := range instanceTypes {
		for _, slice := range slices[instanceType.Name] {
			resources := &instanceType.DynamicResources
			resources.ResourceSliceTemplates = append(resources.ResourceSliceTemplates, template(slice))
		}
	}
	return nil
}

func template(slice resourcev1.ResourceSliceSpec) *cloudprovider.ResourceSliceTemplate {
	devices := make([]cloudprovider.Device, 0, len(slice.Devices))
	for _, device := range slice.Devices {
		devices = append(devices, cloudprovider.Device{
			Name:                     unique.Make(device.Name),
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
			AllowMultipleAllocations: lo.FromPtr(device.AllowMultipleAllocations),
			ConsumesCounters:         device.ConsumesCounters,
		})
	}
	return &cloudprovider.ResourceSliceTemplate{
		Driver:         unique.Make(slice.Driver),
		Pool:           cloudprovider.ResourcePool{Name: unique.Make(slice.Pool.Name)},
		Devices:        devices,
		SharedCounters: slice.SharedCounters,
	}
}
