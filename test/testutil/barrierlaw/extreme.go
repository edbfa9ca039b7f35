/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrierlaw

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// extremePolicies is the number of policies of which one reads extreme data, and extremeWrites the number of writes for it of which one has
// such data. They are rare because they take long.
const (
	extremePolicies = 8
	extremeWrites   = 2
)

// extremeRule matches the writes that have extreme data.
var extremeRule = policyv1alpha1.PolicyRule{
	Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"},
}

// isExtreme is a condition for writes with extreme data. Others pass, so that the policies of a test do not deny each other's writes.
const isExtreme = `object != null && has(object.spec) && has(object.spec.text)`

// extremeAtom returns a condition on data for which Proviso, or kube-apiserver, has bounds.
func (g *Generator) extremeAtom() string {
	return g.pick(
		`quantity(object.spec.text).isGreaterThan(quantity("1"))`, `isQuantity(object.spec.text)`, `quantity(object.spec.text) == quantity("1")`,
		`int(object.spec.text) > 1`, `uint(object.spec.text) > 1u`, `double(object.spec.text) < 1.5`, `bool(object.spec.text)`, `duration(object.spec.text) > duration("1s")`,
		`timestamp(object.spec.text) > timestamp("2024-01-01T00:00:00Z")`, `timestamp("2024-01-01T00:00:00Z").getHours(object.spec.text) > 1`,
		`isIP(object.spec.text)`, `ip(object.spec.text).family() == 4`, `isCIDR(object.spec.text)`, `isSemver(object.spec.text)`, `semver(object.spec.text).major() > 1`,
		`isURL(object.spec.text)`, `url(object.spec.text).getHost() == "a"`,
		`object.spec.text.split(",").size() > 3`, `object.spec.text.charAt(1) == "0"`, `object.spec.text.substring(1).size() > 300`, `object.spec.text.indexOf("x") >= 0`,
		`object.spec.text.lastIndexOf("1") > 300`, `object.spec.text.indexOf(object.spec.text) == 0`, `object.spec.text.replace("1", "22").size() > 300`, `object.spec.text.lowerAscii().size() > 70000`,
		`object.spec.text.trim() == object.spec.text`, `object.spec.text.contains("x")`, `strings.quote(object.spec.text).size() > 300`, `"%s".format([object.spec.text]).size() > 300`,
		`object.spec.text.matches("^[0-9.e]*$")`, `object.spec.text.matches("^([01]{250})*$")`, `"aaa".matches(object.spec.text)`, `object.spec.text.find("[1-9]+") == ""`, `object.spec.text.findAll("0").size() > 300`,
		`object.spec.text == oldObject.spec.text`, `size(object.spec.text) > 300`, `object.spec.text in ["1", "a"]`, `object.spec.text in {"1": 1}`, `{"1": true}[object.spec.text]`,
		`{object.spec.key: 1}.size() == 1`, `{object.spec.key: 1, dyn("a"): 2}.size() == 1`, `!(object.spec.key in {object.spec.key: 1})`, `[object.spec.key].transformMapEntry(i, v, {v: i}).size() == 0`,
		`object.spec.key in {"a": 1, "b": 2}`, `{"a": true}[object.spec.key]`, `{1: true, 2: false}[object.spec.key]`, `object.spec.key in ["a", "b"]`, `object.spec.key in [1, 2]`,
		`object.spec.list.all(x, x in object.spec.list)`, `!object.spec.list.all(x, x in object.spec.list)`, `object.spec.list.all(x, object.spec.list.exists(y, y == x))`,
		`object.spec.list == object.spec.list`, `object.spec.list != object.spec.list`, `object.spec.list.map(x, object.spec.list) != object.spec.list.map(x, object.spec.list)`, `object == object`, `object.spec.list.size() > 577`, `object.spec.key in object.spec.list`, `object.spec.list[1] == object.spec.key`,
		`object.spec.list.join(",").size() > 300`, `object.spec.list.distinct().size() > 300`, `object.spec.list.flatten().size() > 300`, `object.spec.list.sort()[0] == "1"`, `object.spec.list.reverse()[0] == 1`,
		`object.spec.list.slice(0, 2).size() == 2`, `sets.contains(object.spec.list, [object.spec.key])`, `sets.equivalent(object.spec.list, object.spec.list)`, `!sets.intersects(object.spec.list, object.spec.list)`,
		`object.spec.list.map(x, [x, x]).flatten().size() > 300`, `object.spec.list.filter(x, x == object.spec.key).size() == 0`, `object.spec.list.sum() > 3`, `object.spec.list.max() > 3`,
		`request.userInfo.groups.all(g, object.spec.list.all(x, x != g))`, `object.spec.list.exists(x, object.spec.list.exists(y, request.userInfo.groups.exists(g, g == x)))`,
		`object.spec.list.exists(x, object.spec.list.exists(y, y == "x")) && request.userInfo.username == "bob"`, `[object.spec.list.exists(x, object.spec.list.exists(y, y == "x")), request.userInfo.username == "bob"].all(v, v)`,
		`object.spec.list.all(x, !(x in request.userInfo.groups))`, `int(request.userInfo.extra["long"][0]) > 1`, `request.userInfo.extra["long"][0].split("0").size() > 300`, `isQuantity(request.userInfo.extra["long"][0])`,
		`object.spec.number > 1`, `int(object.spec.number) > 1`, `object.spec.number + 1 > object.spec.number`, `object.spec.number == 1.0`, `object.spec.number * 2 > 0`, `uint(object.spec.number) > 1u`, `string(object.spec.number) == "1"`,
	)
}

// extremeText returns a text that is about as long as a bound of Proviso, or that has a large exponent.
func (g *Generator) extremeText() string {
	length := []int{1, 63, 64, 65, 70, 256, 257, 300, 1000, 8 << 10, 8<<10 + 1, 64 << 10, 64<<10 + 1, 70_000}[g.IntN(14)]
	switch g.IntN(6) {
	case 0:
		return g.pick("1e64", "1e65", "1e-65", "1E100", "-1e-100", "1e", "1Ei", "9223372036854775808", "18446744073709551616", "1e309", "", "\x00", "ä", "10.0.0.1", "::1", "true", "1.2.3")
	case 1:
		return "0." + strings.Repeat("0", length) + g.pick("", "1")
	case 2:
		return strings.Repeat("0", length) + "1"
	case 3:
		return strings.Repeat(g.pick("1,", "a", "(a", "a{9}", "ä", ":", "[!-z]"), length/2+1)
	case 4:
		return g.pick("http://a/", "v1.2.", "10.0.0.", "UTC", "true ") + strings.Repeat("1", length)
	}
	return strings.Repeat(g.pick("1", " ", "x"), length)
}

// extremeValue returns a value of any type, as it is decoded from JSON.
func (g *Generator) extremeValue() any {
	switch g.IntN(10) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2:
		return g.extremeText()
	case 3:
		return []any{"a", int64(1)}
	case 4:
		return map[string]any{"a": map[string]any{}}
	case 5:
		return g.nested(1 + g.IntN(60))
	case 6, 7:
		return g.extremeNumber()
	}
	return g.pick("a", "b", "1")
}

func (g *Generator) nested(depth int) any {
	value := any("a")
	for range depth {
		value = []any{value}
	}
	return value
}

func (g *Generator) extremeNumber() any {
	return []any{int64(1), int64(0), int64(-1), int64(1<<63 - 1), int64(-1 << 63), int64(1<<53 + 1), 1.0, 1.5, 1e300, -1e300, 1e19, 5e-324}[g.IntN(12)]
}

// extremeList returns a list that is empty, that holds anything, or that is about as long as a bound of cost.
func (g *Generator) extremeList() any {
	if g.IntN(4) == 0 {
		return g.extremeValue()
	}
	length := []int{0, 1, 3, 57, 58, 223, 224, 577, 600, 1000}[g.IntN(10)]
	list := make([]any, 0, length)
	kind := g.IntN(5)
	for i := range length {
		switch kind {
		case 0:
			list = append(list, int64(i))
		case 1:
			list = append(list, "x"+strings.Repeat("1", i%70))
		case 2:
			list = append(list, []any{int64(i)})
		case 3:
			list = append(list, g.extremeNumber())
		default:
			list = append(list, "devs")
		}
	}
	return list
}

// extremeObject sets fields of an object to extreme data, or leaves them out.
func (g *Generator) extremeObject(u *unstructured.Unstructured) {
	spec := map[string]any{"replicas": g.extremeNumber()}
	for name, value := range map[string]any{"text": g.extremeText(), "key": g.extremeValue(), "list": g.extremeList(), "number": g.extremeNumber()} {
		spec[name] = value
	}
	for _, name := range []string{"text", "key", "list", "number"} {
		switch g.IntN(20) {
		case 0:
			delete(spec, name)
		case 1:
			spec[name] = nil
		case 2:
			spec[name] = g.extremeValue()
		}
	}
	u.Object["spec"] = spec
}

// extremeUsers are users with as many groups, or texts as long, as few users have.
var extremeUsers = []user.Info{
	&user.DefaultInfo{Name: "alice", Groups: strings.Split(strings.Repeat("team-of-a-large-company,", 39)+"devs", ",")},
	&user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"ops"}, Extra: map[string][]string{"long": {strings.Repeat("0", 300)}, "scopes": {"a"}}},
}

// extreme makes a write of a widget one with extreme data.
func (g *Generator) extreme(w *Write) {
	if g.IntN(3) == 0 {
		w.User = extremeUsers[g.IntN(len(extremeUsers))]
	}
	for _, object := range []any{w.Object, w.OldObject} {
		if u, ok := object.(*unstructured.Unstructured); ok {
			g.extremeObject(u)
		}
	}
	if w.Operation == admission.Update && g.IntN(2) == 0 {
		w.OldObject = w.Object.DeepCopyObject()
	}
}
