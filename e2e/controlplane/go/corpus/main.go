// Prints one object of each kind that Dovetail reads or writes, in every API version of the module's Kubernetes, with
// every field of its Go type set: go run -modfile=1.37.mod ./corpus.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// kinds are those that are read from the API server or from manifests, and those that are written.
var kinds = map[string][]string{
	"":                    {"Binding", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"},
	"batch":               {"Job"},
	"coordination.k8s.io": {"Lease"},
	"events.k8s.io":       {"Event"},
	"policy":              {"Eviction", "PodDisruptionBudget"},
	"resource.k8s.io":     {"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"},
	"scheduling.k8s.io":   {"CompositePodGroup", "PodGroup", "Workload"},
	"storage.k8s.io":      {"CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"},
}

// texts are values for types of which only some texts mean something, and for the keys of maps.
var texts = map[string]string{
	"AllocationConfigSource":        "FromClaim",
	"ConditionStatus":               "True",
	"ContainerRestartPolicy":        "Always",
	"ContainerRestartRuleAction":    "RestartAllContainers",
	"DeviceAllocationMode":          "ExactCount",
	"DeviceTaintEffect":             "NoSchedule",
	"DeviceTolerationOperator":      "Equal",
	"FullyQualifiedName":            "gpu.example.com/model",
	"LabelSelectorOperator":         "In",
	"NodeInclusionPolicy":           "Honor",
	"NodeSelectorOperator":          "In",
	"PersistentVolumeAccessMode":    "ReadWriteOnce",
	"PersistentVolumeMode":          "Block",
	"PersistentVolumePhase":         "Bound",
	"PodConditionType":              "PodScheduled",
	"PodPhase":                      "Running",
	"PreemptionPolicy":              "PreemptLowerPriority",
	"Protocol":                      "TCP",
	"QualifiedName":                 "gpu.example.com/memory",
	"ResourceHealthStatus":          "Unhealthy",
	"ResourceName":                  "cpu",
	"RestartPolicy":                 "Always",
	"TaintEffect":                   "NoSchedule",
	"TolerationOperator":            "Equal",
	"UnsatisfiableConstraintAction": "DoNotSchedule",
	"VolumeBindingMode":             "WaitForFirstConsumer",
}

var mergeKeys = map[string]string{}

var moment = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// printed are the objects as JSON, and as protobuf where Dovetail writes the bytes that the API server stores.
type printed struct {
	Objects []json.RawMessage `json:"objects"`
	// MergeKeys are the fields by which a strategic merge patch finds an element, by the path of their list.
	MergeKeys map[string]string `json:"mergeKeys"`
	Claim     []byte            `json:"claim"`
}

func main() {
	out := printed{MergeKeys: mergeKeys}
	for _, kind := range registered() {
		object, text, err := filled(kind)
		if err == nil && kind.Kind == "ResourceClaim" && kind.Version == "v1" {
			out.Claim, err = runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), object)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "corpus: %v: %v\n", kind, err)
			os.Exit(1)
		}
		out.Objects = append(out.Objects, text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintf(os.Stderr, "corpus: %v\n", err)
		os.Exit(1)
	}
}

func registered() []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for kind := range scheme.Scheme.AllKnownTypes() {
		if slices.Contains(kinds[kind.Group], kind.Kind) {
			found = append(found, kind)
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return found
}

func filled(kind schema.GroupVersionKind) (runtime.Object, []byte, error) {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, nil, err
	}
	fill(reflect.ValueOf(object).Elem(), kind.Kind, 0)
	object.GetObjectKind().SetGroupVersionKind(kind)
	text, err := json.Marshal(object)
	return object, text, err
}

// deepest ends types that contain themselves; no type of the API is as deep otherwise.
const deepest = 40

// fill sets a value and everything below it. The texts, numbers and quantities follow from the path, so that they differ
// within an object and do not change from version to version.
func fill(value reflect.Value, path string, depth int) {
	if depth > deepest {
		return
	}
	if isSpecial(value, path) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() {
				fill(value.Field(i), below(path, field), depth+1)
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0), path+"[]", depth+1)
	case reflect.Map:
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key, path+".key", depth+1)
		fill(element, path, depth+1)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, element)
	case reflect.String:
		value.SetString(text(value.Type().Name(), path))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		value.SetInt(number(path))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		value.SetUint(uint64(number(path)))
	case reflect.Float32, reflect.Float64:
		value.SetFloat(float64(number(path)))
	default:
		panic(fmt.Sprintf("%s has the type %v, which nothing here fills", path, value.Type()))
	}
}

// below returns the path of a field as in JSON, where an embedded struct has no name of its own.
func below(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return path
	}
	path += "." + name
	if key, ok := field.Tag.Lookup("patchMergeKey"); ok {
		mergeKeys[path] = key
	}
	return path
}

// isSpecial sets values of types that are not written as their Go fields.
func isSpecial(value reflect.Value, path string) bool {
	switch special := value.Addr().Interface().(type) {
	case *metav1.TypeMeta:
	case *metav1.Time:
		*special = metav1.NewTime(moment)
	case *metav1.MicroTime:
		*special = metav1.NewMicroTime(moment)
	case *metav1.Duration:
		special.Duration = time.Duration(number(path)) * time.Second
	case *metav1.FieldsV1:
		special.Raw = []byte(`{"f:metadata":{}}`)
	case *resource.Quantity:
		*special = *resource.NewQuantity(number(path), resource.DecimalSI)
	case *intstr.IntOrString:
		*special = intstr.FromInt32(int32(number(path)))
	case *runtime.RawExtension:
		special.Raw = []byte(`{"kind":"Parameters"}`)
	case *[]byte:
		*special = []byte(path)
	default:
		return false
	}
	return true
}

func text(typeName, path string) string {
	if typeName == "ResourceName" && strings.HasPrefix(path, "PersistentVolume") {
		return "storage"
	}
	if known, ok := texts[typeName]; ok {
		return known
	}
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
	if name == "resourceVersion" {
		return fmt.Sprint(number(path)) // a text that has to be a number
	}
	return strings.ToLower(name)
}

// number is from 2 to 98, so that it fits every type and is neither a default nor none.
func number(path string) int64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(path))
	return int64(hash.Sum32()%97) + 2
}
