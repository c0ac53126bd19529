// Validates Kubernetes manifests as an API server does when they are applied: with the validation code of Kubernetes, its
// warnings, and the Pod Security level that each namespace enforces. It needs no server.
//
// The arguments are files. Namespaces in them set the Pod Security level. Objects of kinds that Kubernetes does not define
// are skipped.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	validateapps "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	validateautoscaling "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	validatecore "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	validatenetworking "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	validatepolicy "k8s.io/kubernetes/pkg/apis/policy/validation"
	securityapi "k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
)

func main() {
	faults, checked := 0, 0
	levels := map[string]securityapi.Level{}
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	// Unknown fields are errors, as with `kubectl apply --validate=strict`.
	decoder := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			object, kind, err := decoder.Decode(document, nil, nil)
			if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) {
				continue
			}
			var found []string
			title := file
			if err != nil {
				found = []string{err.Error()}
			} else {
				title = fmt.Sprintf("%s: %s %s", file, kind.Kind, object.(metav1.Object).GetName())
				legacyscheme.Scheme.Default(object)
				found = append(invalid(object), insecure(evaluator, levels, object)...)
			}
			checked++
			faults += len(found)
			for _, fault := range found {
				fmt.Printf("%s: %s\n", title, fault)
			}
		}
	}
	fmt.Printf("%d objects checked, %d faults\n", checked, faults)
	if faults > 0 || checked == 0 {
		os.Exit(1)
	}
}

// Returns the errors and warnings of an object by itself.
func invalid(object runtime.Object) []string {
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return []string{err.Error()}
	}
	var errors field.ErrorList
	var warnings []string
	template := field.NewPath("spec", "template")
	switch object := internal.(type) {
	case *apps.Deployment:
		options := podapi.GetValidationOptionsFromPodTemplate(&object.Spec.Template, nil)
		errors = validateapps.ValidateDeployment(object, options)
		warnings = podapi.GetWarningsForPodTemplate(context.Background(), template, &object.Spec.Template, nil)
	case *apps.DaemonSet:
		options := podapi.GetValidationOptionsFromPodTemplate(&object.Spec.Template, nil)
		errors = validateapps.ValidateDaemonSet(object, options)
		warnings = podapi.GetWarningsForPodTemplate(context.Background(), template, &object.Spec.Template, nil)
	case *autoscaling.HorizontalPodAutoscaler:
		options := validateautoscaling.HorizontalPodAutoscalerSpecValidationOptions{}
		errors = validateautoscaling.ValidateHorizontalPodAutoscaler(object, options)
	case *core.Service:
		errors = validatecore.ValidateServiceCreate(object)
	case *core.ServiceAccount:
		errors = validatecore.ValidateServiceAccount(object)
	case *core.Namespace:
		errors = validatecore.ValidateNamespace(object)
	case *core.Pod:
		options := podapi.GetValidationOptionsFromPodSpecAndMeta(&object.Spec, nil, &object.ObjectMeta, nil)
		errors = validatecore.ValidatePodCreate(object, options)
	case *networking.NetworkPolicy:
		options := validatenetworking.NetworkPolicyValidationOptions{}
		errors = validatenetworking.ValidateNetworkPolicy(object, options)
	case *networking.Ingress:
		errors = validatenetworking.ValidateIngressCreate(object)
	case *policy.PodDisruptionBudget:
		options := validatepolicy.PodDisruptionBudgetValidationOptions{}
		errors = validatepolicy.ValidatePodDisruptionBudget(object, options)
	default:
		return []string{"nothing validates this kind: add it to invalid()"}
	}
	found := warnings
	for _, err := range errors {
		found = append(found, err.Error())
	}
	return found
}

// Returns violations of a pod against the Pod Security level of its namespace. Stores the levels of namespaces.
func insecure(evaluator security.Evaluator, levels map[string]securityapi.Level, object runtime.Object) []string {
	var metadata *metav1.ObjectMeta
	var spec *corev1.PodSpec
	namespace := object.(metav1.Object).GetNamespace()
	switch object := object.(type) {
	case *corev1.Namespace:
		levels[object.Name] = securityapi.Level(object.Labels[securityapi.EnforceLevelLabel])
		return nil
	case *appsv1.Deployment:
		metadata, spec = &object.Spec.Template.ObjectMeta, &object.Spec.Template.Spec
	case *appsv1.DaemonSet:
		metadata, spec = &object.Spec.Template.ObjectMeta, &object.Spec.Template.Spec
	case *corev1.Pod:
		metadata, spec = &object.ObjectMeta, &object.Spec
	default:
		return nil
	}
	level, known := levels[namespace]
	if !known {
		return []string{fmt.Sprintf("namespace %q is not defined before it", namespace)}
	}
	var found []string
	version := securityapi.LevelVersion{Level: level, Version: securityapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(version, metadata, spec) {
		if !result.Allowed {
			found = append(found, fmt.Sprintf("level %s forbids %s: %s", level, result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return found
}
