/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer

import "testing"

// TestWords shows simple conditions in plain words. Others stay as they are.
func TestWords(t *testing.T) {
	t.Parallel()
	const same = ""
	for _, tc := range []struct{ condition, want string }{
		{condition: `object.spec.x == "dev"`, want: `spec.x is dev`},
		{condition: `object.spec.x != "dev"`, want: `spec.x is not dev`},
		{condition: `oldObject.spec.storageClassName == "dev"`, want: `stored spec.storageClassName is dev`},
		{condition: `object.spec.?nodeName.orValue("") == "edge"`, want: `spec.nodeName is edge`},
		{condition: `object.spec.?nodeName.orValue("") != "edge"`, want: `spec.nodeName is not edge`},
		{condition: `object.spec.?nodeName.orValue("") == ""`, want: same},
		{condition: `object.spec.?nodeName.orValue("") != ""`, want: same},
		{condition: `object.spec.?n.orValue(0) < 3`, want: same},
		{condition: `object.spec.n < 3`, want: `spec.n is less than 3`},
		{condition: `object.spec.n >= 3`, want: `spec.n is at least 3`},
		{condition: `object.spec.?a.b.orValue("") == "c"`, want: `spec.a.b is c`},
		{condition: `object.?spec.a.hasValue()`, want: `spec.a is set`},
		{condition: `object.?spec.a.hasValue(1)`, want: same},
		{condition: `"guarded" in dyn(oldObject.spec.?tags.orValue(dyn([])))`, want: `stored spec.tags contains guarded`},
		{condition: `"a" in object.spec.?tags.orValue(["a"])`, want: same},
		{condition: `"a" in object.metadata.?labels.orValue({})`, want: `metadata.labels["a"] is set`},
		{condition: `!("a" in dyn(object.metadata.?labels.orValue(dyn({}))))`, want: `metadata.labels["a"] is not set`},
		{condition: `!("a" in oldObject.spec.tags)`, want: same},
		{condition: `!("a" in object.spec.?tags.orValue([]))`, want: same},
		{condition: `"a" in object.spec.?tags.orValue({"a": "b"})`, want: same},
		{condition: `object.spec.?tags.orValue({}) == "a"`, want: same},
		{condition: `!(1 in object.spec.?tags.orValue({}))`, want: same},
		{condition: `object.spec.x in ["a", "b c"]`, want: `spec.x is one of a, "b c"`},
		{condition: `object.spec.x in [object.spec.y]`, want: same},
		{condition: `has(object.spec.x)`, want: `spec.x is set`},
		{condition: `!has(object.spec.x)`, want: `spec.x is not set`},
		{condition: `object.spec.hostNetwork`, want: `spec.hostNetwork is true`},
		{condition: `!object.spec.hostNetwork`, want: `spec.hostNetwork is false`},
		{condition: `object.metadata.labels["team"] == "a"`, want: `metadata.labels["team"] is a`},
		{condition: `object.metadata.?labels[?"team"].orValue("") == "a"`, want: `metadata.labels["team"] is a`},
		{condition: `object.metadata.name.startsWith("dev-")`, want: `metadata.name starts with dev-`},
		{condition: `has(object.spec.x) && object.spec.x == "a" && object.spec.y == "b"`, want: `spec.x is set and spec.x is a and spec.y is b`},
		{condition: `object.a.x == "a" || object.a.y == "b"`, want: `a.x is a or a.y is b`},
		{condition: `object.a.x == "a" || object.a.y == "b" && object.a.z == "c"`, want: same},
		{condition: `object.a.x == "true"`, want: `a.x is "true"`},
		{condition: `object.a.x == true`, want: `a.x is true`},
		{condition: `object.a.x == "1"`, want: `a.x is "1"`},
		{condition: `object.a.x == "a and b.c is d"`, want: `a.x is "a and b.c is d"`},
		{condition: `object.a.x == object.a.y`, want: same},
		{condition: `object.a["x\ny"] == "b"`, want: `a["x\ny"] is b`},
		{condition: `object.a.all(x, x == "a")`, want: same},
		{condition: `!(object.a.x == "a")`, want: same},
		{condition: `authorizer.group("").resource("pods").check("get").allowed()`, want: same},
		{condition: `dyn(object).x == 1`, want: `x is 1`},
		{condition: `dyn() == "a"`, want: same},
		{condition: `object.dyn() == "a"`, want: same},
		{condition: `"a" in object.?x.orValue(dyn())`, want: same},
		{condition: `orValue("b") == "a"`, want: same},
		{condition: `object.?x.orValue() == "a"`, want: same},
		{condition: `object == oldObject`, want: same},
		{condition: `object == null`, want: same},
		{condition: `object == "a"`, want: same},
		{condition: `oldObject in ["a"]`, want: same},
		{condition: `true`, want: `always`},
		{condition: `false`, want: `never`},
		{condition: `object.a.x == `, want: same},
		{condition: `operation == "CREATE"`, want: same},
	} {
		if tc.want == same {
			tc.want = tc.condition
		}
		if got := Words(tc.condition); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.condition, got, tc.want)
		}
	}
}
