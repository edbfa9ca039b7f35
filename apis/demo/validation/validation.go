/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package validation validates the kinds of demo.proviso.dev.
package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/demo"
)

const (
	maxCPUShare = 1024
	maxItems    = 64
	maxString   = 256
	// maxConditions bounds the conditions of a status, as in a policy.
	maxConditions = 16

	// maxMemoryBytes and maxMemoryExponentBytes bound the text of a quantity before it is parsed.
	// Parsing a quantity with a negative exponent, or comparing one with a positive exponent,
	// creates a number with as many digits as the exponent says: 1e-999999999 takes minutes. Two
	// digits and a sign suffice for every existing amount of memory.
	maxMemoryBytes         = 32
	maxMemoryExponentBytes = 3
)

// ValidateVirtualMachine validates a new machine.
func ValidateVirtualMachine(vm *demo.VirtualMachine) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&vm.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateSpec(&vm.Spec, field.NewPath("spec"))...)
}

// ValidateVirtualMachineUpdate validates a changed machine as strictly as a new one.
func ValidateVirtualMachineUpdate(vm, old *demo.VirtualMachine) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&vm.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateSpec(&vm.Spec, field.NewPath("spec"))...)
}

// ValidateVirtualMachineStatusUpdate validates a changed status of a machine.
func ValidateVirtualMachineStatusUpdate(vm, old *demo.VirtualMachine) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&vm.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	phases := sets.New(demo.VirtualMachinePending, demo.VirtualMachineRunning, demo.VirtualMachineStopped)
	if vm.Status.Phase != "" && !phases.Has(vm.Status.Phase) {
		errs = append(errs, field.NotSupported(path.Child("phase"), vm.Status.Phase, sets.List(phases)))
	}
	if vm.Status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), vm.Status.ObservedGeneration, "must not be negative"))
	}
	if n := len(vm.Status.Conditions); n > maxConditions {
		return append(errs, field.TooMany(path.Child("conditions"), n, maxConditions))
	}
	return append(errs, metav1validation.ValidateConditions(vm.Status.Conditions, path.Child("conditions"))...)
}

func validateSpec(spec *demo.VirtualMachineSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case spec.Image == "":
		errs = append(errs, field.Required(path.Child("image"), ""))
	case len(spec.Image) > maxString:
		errs = append(errs, field.TooLong(path.Child("image"), "", maxString))
	}
	errs = append(errs, validateName(spec.StorageClassName, path.Child("storageClassName"))...)
	errs = append(errs, validateName(spec.NodeName, path.Child("nodeName"))...)
	if share := spec.CPUShare; share != nil && !(*share > 0 && *share <= maxCPUShare) {
		errs = append(errs, field.Invalid(path.Child("cpuShare"), *share, fmt.Sprintf("must be greater than 0 and at most %d", maxCPUShare)))
	}
	if spec.Memory != nil {
		errs = append(errs, validateMemory(*spec.Memory, path.Child("memory"))...)
	}
	errs = append(errs, validateDisks(spec.Disks, path.Child("disks"))...)
	return append(errs, validateTags(spec.Tags, path.Child("tags"))...)
}

func validateMemory(text string, path *field.Path) field.ErrorList {
	quantity, err := ParseMemory(text)
	switch {
	case len(text) > maxMemoryBytes:
		return field.ErrorList{field.TooLong(path, "", maxMemoryBytes)}
	case err != nil:
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	case quantity.Sign() <= 0:
		return field.ErrorList{field.Invalid(path, text, "must be greater than 0")}
	}
	return nil
}

var errMemory = fmt.Errorf("must be a quantity of at most %d bytes, with an exponent of at most two digits", maxMemoryBytes)

// ParseMemory parses an amount of memory. It returns an error if the text is too long or has a
// large exponent.
func ParseMemory(text string) (resource.Quantity, error) {
	if len(text) > maxMemoryBytes {
		return resource.Quantity{}, errMemory
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(text)-at-1 > maxMemoryExponentBytes {
		return resource.Quantity{}, errMemory
	}
	return resource.ParseQuantity(text)
}

func validateDisks(disks []demo.VirtualMachineDisk, path *field.Path) field.ErrorList {
	if len(disks) > maxItems {
		return field.ErrorList{field.TooMany(path, len(disks), maxItems)}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i, disk := range disks {
		at := path.Index(i)
		for _, message := range utilvalidation.IsDNS1123Label(disk.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), disk.Name, message))
		}
		if names.Has(disk.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), disk.Name))
		}
		names.Insert(disk.Name)
		if !(disk.SizeGiB > 0) {
			errs = append(errs, field.Invalid(at.Child("sizeGiB"), disk.SizeGiB, "must be greater than 0"))
		}
		errs = append(errs, validateName(disk.StorageClassName, at.Child("storageClassName"))...)
	}
	return errs
}

func validateTags(tags []string, path *field.Path) field.ErrorList {
	if len(tags) > maxItems {
		return field.ErrorList{field.TooMany(path, len(tags), maxItems)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, tag := range tags {
		switch {
		case strings.TrimSpace(tag) == "":
			errs = append(errs, field.Required(path.Index(i), ""))
		case len(tag) > maxString:
			errs = append(errs, field.TooLong(path.Index(i), "", maxString))
		case seen.Has(tag):
			errs = append(errs, field.Duplicate(path.Index(i), tag))
		}
		seen.Insert(tag)
	}
	return errs
}

func validateName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	var errs field.ErrorList
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}
