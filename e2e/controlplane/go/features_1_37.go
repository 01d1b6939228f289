//go:build kubernetes_1_37

package main

import "k8s.io/dynamic-resource-allocation/structured"

// features returns what kube-scheduler 1.37 allocates by.
func features(alpha bool) structured.Features {
	return structured.Features{
		AdminAccess:             true,
		CompatibilityGroups:     alpha,
		ConsumableCapacity:      true,
		DerivedAttributes:       alpha,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: true,
		ListTypeAttributes:      alpha,
		OptionalNodeOperations:  alpha,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
}
