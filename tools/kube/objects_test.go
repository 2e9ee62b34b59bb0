package kube

import (
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // registers the defaults of the API server
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	security "k8s.io/pod-security-admission/api"
	securitypolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// object is an object of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

// release has the objects of a release by their kind. A chart with one object of a kind leaves the others nil.
type release struct {
	all         []object
	statefulSet *appsv1.StatefulSet
	deployment  *appsv1.Deployment
	budget      *policyv1.PodDisruptionBudget
	policy      *networkingv1.NetworkPolicy
	account     *corev1.ServiceAccount
	config      *corev1.ConfigMap
	claim       *corev1.PersistentVolumeClaim
	services    []*corev1.Service
	monitor     *monitoring.ServiceMonitor
}

// decode decodes the objects; an unknown field is an error.
func decode(t *testing.T, texts []string) *release {
	t.Helper()
	r := &release{}
	for _, text := range texts {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		into := r.add(kind)
		if into == nil {
			t.Fatalf("no test decodes %s of %s", kind.Kind, kind.APIVersion)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
		r.all = append(r.all, into)
	}
	return r
}

// add returns a new object of a kind, or nil if the chart must have none.
func (r *release) add(kind metav1.TypeMeta) object {
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 StatefulSet":
		r.statefulSet = &appsv1.StatefulSet{}
		return r.statefulSet
	case "apps/v1 Deployment":
		r.deployment = &appsv1.Deployment{}
		return r.deployment
	case "policy/v1 PodDisruptionBudget":
		r.budget = &policyv1.PodDisruptionBudget{}
		return r.budget
	case "networking.k8s.io/v1 NetworkPolicy":
		r.policy = &networkingv1.NetworkPolicy{}
		return r.policy
	case "v1 ServiceAccount":
		r.account = &corev1.ServiceAccount{}
		return r.account
	case "v1 ConfigMap":
		r.config = &corev1.ConfigMap{}
		return r.config
	case "v1 PersistentVolumeClaim":
		r.claim = &corev1.PersistentVolumeClaim{}
		return r.claim
	case "v1 Service":
		service := &corev1.Service{}
		r.services = append(r.services, service)
		return service
	case "monitoring.coreos.com/v1 ServiceMonitor":
		r.monitor = &monitoring.ServiceMonitor{}
		return r.monitor
	default:
		return nil
	}
}

// template returns the template of the pods.
func (r *release) template() *corev1.PodTemplateSpec {
	if r.statefulSet != nil {
		return &r.statefulSet.Spec.Template
	}
	return &r.deployment.Spec.Template
}

// container returns the only container of the pods.
func (r *release) container(t *testing.T) *corev1.Container {
	t.Helper()
	spec := &r.template().Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Fatalf("%d containers and %d before them; want 1 and none", len(spec.Containers), len(spec.InitContainers))
	}
	return &spec.Containers[0]
}

// eachRelease runs a test for every set of values, with a release of the usual name, with one of the longest name, and
// with one whose name YAML would read as a number.
func eachRelease(t *testing.T, test func(t *testing.T, r *release)) {
	t.Helper()
	for name, text := range values {
		for _, as := range []string{"plantstore", "a-release." + strings.Repeat("x", 43), "1e3"} {
			t.Run(name+"/"+as, func(t *testing.T) { test(t, decode(t, manifests(t, as, text))) })
		}
	}
}

// TestLint runs helm lint.
func TestLint(t *testing.T) {
	for name, text := range values {
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatal(err)
		}
		for _, message := range lint.All(chartDir, parsed, namespace, true).Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, message)
			}
		}
	}
}

// TestObjectsAreValid validates every object as the API server does, after its defaults.
func TestObjectsAreValid(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		for _, o := range r.all {
			if o == object(r.monitor) {
				continue // the API server has only a schema for it, which decode has checked
			}
			filled := o.DeepCopyObject().(object)
			filled.SetNamespace(namespace) // as kubectl and Helm do
			for _, fault := range violations(t, filled) {
				t.Errorf("%s %s: %v", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), fault)
			}
		}
	})
}

func violations(t *testing.T, o object) field.ErrorList {
	t.Helper()
	legacyscheme.Scheme.Default(o)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(o, runtime.InternalGroupVersioner)
	if err != nil {
		t.Fatal(err)
	}
	switch o := internal.(type) {
	case *apps.StatefulSet:
		return append(warnings(t, &o.Spec.Template), appsvalidation.ValidateStatefulSet(o,
			appsvalidation.StatefulSetValidationOptions{}, pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))...)
	case *apps.Deployment:
		return append(warnings(t, &o.Spec.Template), appsvalidation.ValidateDeployment(o,
			pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))...)
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	case *core.Service:
		// The API server allocates these before the validation.
		if o.Spec.ClusterIP != "" {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		}
		if o.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal {
			o.Spec.HealthCheckNodePort = 30000
		}
		return corevalidation.ValidateServiceCreate(o)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o)
	case *core.PersistentVolumeClaim:
		return corevalidation.ValidatePersistentVolumeClaim(o,
			corevalidation.ValidationOptionsForPersistentVolumeClaimCreate())
	default:
		t.Fatalf("no validation of %T", o)
		return nil
	}
}

// warnings returns the warnings of the API server about a template as errors.
func warnings(t *testing.T, template *core.PodTemplateSpec) (faults field.ErrorList) {
	t.Helper()
	for _, text := range pod.GetWarningsForPodTemplate(t.Context(), field.NewPath("template"), template, nil) {
		faults = append(faults, field.Invalid(field.NewPath("template"), "", text))
	}
	return faults
}

// TestPodsAreRestricted checks the strictest of the Pod Security Standards, as the admission of the API server does.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := securitypolicy.NewEvaluator(securitypolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
	eachRelease(t, func(t *testing.T, r *release) {
		template := r.template()
		result := securitypolicy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
		if !result.Allowed {
			t.Errorf("refused: %s: %s", result.ForbiddenReason(), result.ForbiddenDetail())
		}
	})
}
