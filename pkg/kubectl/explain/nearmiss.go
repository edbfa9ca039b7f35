/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	kjson "sigs.k8s.io/json"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/explanation"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

const (
	// maxCandidates bounds the changes that are tried. Each is one decision.
	maxCandidates = 256
	// maxClauseFields and maxClauseValues bound the fields of one clause that are changed, and the values that they get.
	maxClauseFields = 8
	maxClauseValues = 24
	// maxMissBytes bounds the new value of a field. A longer one would be cut, and of no use.
	maxMissBytes = 2048
	// maxSearch bounds the time of a search. A policy can be so expensive that one decision takes seconds.
	maxSearch = 10 * time.Second
)

// nearMiss is a change of one field of an object with which the request is allowed.
type nearMiss struct {
	// Object is object or oldObject. It is empty, as Field is, for a selector.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Action is set, remove or select.
	Action string `json:"action"`
	// Selectors are the flags of kubectl with which a list is allowed.
	Selectors string `json:"selectors,omitempty"`
	// Value is the new value, and Old the value in the request, as JSON.
	Value string `json:"value,omitempty"`
	Old   string `json:"old,omitempty"`
}

// The actions of a near miss.
const (
	actionSet    = "set"
	actionRemove = "remove"
	actionSelect = "select"
)

// The reasons why there is no near miss.
const (
	noMissNoObject = "the request has no object that could be changed"
	noMissUnknown  = "not all data of the request are known"
	noMissNone     = "none found"
	noMissTime     = "none found in time"
)

// rank orders candidates: those that follow from the condition come first.
type rank int

const (
	rankCompared rank = iota // the other operand of a comparison
	rankStored               // the value that the stored object has
	rankFlipped              // the other bool
	rankJoined               // a text that begins, ends or goes on with a constant
	rankEnum                 // a value that the schema lists for the field
	rankRemoved              // no field, or an empty list
	rankOther                // another constant of the clause, or of another policy
	rankExample              // any text, for labels and annotations
	ranks
)

// example is the text for a label or an annotation that may have any value but some.
const example = "example"

// candidate is a change to try.
type candidate struct {
	rank   rank
	path   []any
	remove bool
	to     any
}

// objectsOf returns the objects of the data of a request, by the names of their variables.
func objectsOf(r *simulation.Request) map[cel.Variable]map[string]any {
	found := map[cel.Variable]map[string]any{}
	for variable, raw := range map[cel.Variable]*runtime.RawExtension{cel.Object: r.Data.Object, cel.OldObject: r.Data.OldObject} {
		content := map[string]any{}
		if raw != nil && kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &content) == nil && len(content) > 0 {
			found[variable] = content
		}
	}
	return found
}

// findNearMiss looks for a change that is allowed, if the decision is no.
func (x *explainer) findNearMiss(ctx context.Context, e *explained) error {
	switch {
	case e.Decision == answer.Yes:
		return nil
	case x.request.Data == nil:
		return x.findSelectors(ctx, e)
	case e.WithObject == "":
		e.NoNearMiss = noMissUnknown
		return nil
	}
	objects := objectsOf(&x.request)
	variable, object := cel.Object, objects[cel.Object]
	if object == nil {
		variable, object = cel.OldObject, objects[cel.OldObject]
	}
	if object == nil {
		e.NoNearMiss = noMissNoObject
		return nil
	}
	kind := openapi.KindOf(x.schemas, (&unstructured.Unstructured{Object: object}).GroupVersionKind())
	s := &search{explainer: x, variable: variable, kind: kind, object: object, stored: objects[cel.OldObject], constants: map[string][]any{}}
	for _, decides := range []bool{true, false} {
		for _, m := range e.Chain {
			for _, p := range m.Policies {
				for _, traced := range p.traces {
					if p.Decides == decides {
						s.collect(traced)
					}
				}
			}
		}
	}
	within, cancel := context.WithTimeout(ctx, maxSearch)
	defer cancel()
	var err error
	switch e.NearMiss, err = s.try(within); {
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil && e.NearMiss == nil:
		e.NoNearMiss = noMissTime
		return nil
	case err == nil && e.NearMiss == nil:
		e.NoNearMiss = noMissNone
	}
	e.isSchemaKnown = s.kind != nil
	return err
}

// findSelectors looks for selectors with which the request is allowed.
func (x *explainer) findSelectors(ctx context.Context, e *explained) error {
	e.NoNearMiss = noMissNoObject
	a := x.request.Spec.ResourceAttributes
	if a == nil {
		return nil
	}
	by := &engine.Authorizer{Source: x.source, Part: engine.Granting}
	record := authorization.AttributesOf(x.request.User(), a, nil)
	within := authorization.WithPolicyBudgets(authorization.WithBudget(ctx))
	byLabels, byFields, found := by.SelectorsFor(within, authorization.Request{Attributes: record})
	if !found {
		return nil
	}
	request, selecting, spec := x.request, *a, *x.request.Spec
	question.SetSelectors(&selecting, byLabels, byFields)
	spec.ResourceAttributes, request.Spec = &selecting, &spec
	decisions, err := x.compilers.Decide(ctx, x.source, &request)
	//guard:explain-selectors-not-tried
	if err == nil && decisions.Last() == answer.Yes {
		e.NearMiss, e.NoNearMiss = &nearMiss{Action: actionSelect, Selectors: question.SelectorFlags(byLabels, byFields)}, ""
		e.isSchemaKnown = true // there is no object
	}
	return err
}

// search collects the candidates of one request.
type search struct {
	*explainer

	variable       cel.Variable
	kind           *openapi.Kind // nil if its schema is not known
	object, stored map[string]any
	candidates     []candidate
	constants      map[string][]any
}

// try returns the first candidate with which the request is allowed.
func (s *search) try(ctx context.Context) (*nearMiss, error) {
	slices.SortStableFunc(s.candidates, func(a, b candidate) int { return int(a.rank) - int(b.rank) })
	for _, c := range s.candidates[:min(len(s.candidates), maxCandidates)] {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		changed, ok := c.apply(s.object)
		//guard:explain-changes-schema-refuses
		if !ok || !s.kind.Accepts(s.object, changed, c.path) {
			continue
		}
		text, err := json.Marshal(changed)
		if err != nil {
			continue
		}
		data := *s.request.Data
		if s.variable == cel.Object {
			data.Object = &runtime.RawExtension{Raw: text}
		} else {
			data.OldObject = &runtime.RawExtension{Raw: text}
		}
		request := s.request
		request.Data = &data
		if !s.admission.IsEmpty() && s.admission.Validate(&request) != nil {
			continue // no server reads such an object
		}
		decisions, err := s.admission.Decide(ctx, s.compilers, s.source, &request)
		if err != nil {
			return nil, err
		}
		//guard:explain-changes-not-tried
		if decisions.Last() == answer.Yes {
			return s.nearMissOf(c), nil
		}
	}
	return nil, nil //nolint:nilnil // absence is a result, and not an error
}

func (s *search) nearMissOf(c candidate) *nearMiss {
	miss := &nearMiss{Object: string(s.variable), Field: pathText(c.path), Action: actionSet}
	//guard:explain-secrets-near-misses
	isHidden := s.secrecy.hides(namesOf(c.path))
	shown := func(v any, most int) string {
		if isHidden {
			return notShown
		}
		return jsonText(v, most)
	}
	if c.remove {
		miss.Action = actionRemove
	} else {
		miss.Value = shown(c.to, maxMissBytes)
	}
	if old, has := valueAt(s.object, c.path); has {
		miss.Old = shown(old, maxValueBytes)
	}
	return miss
}

// namesOf returns the names at the beginning of a path.
func namesOf(path []any) (names []string) {
	for _, step := range path {
		name, ok := step.(string)
		if !ok {
			return names
		}
		names = append(names, name)
	}
	return names
}

// pathText returns a path as CEL has it.
func pathText(path []any) string {
	var b strings.Builder
	for i, step := range path {
		name, isName := step.(string)
		isPlain := isName && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
		})
		switch {
		case isPlain && i == 0:
			b.WriteString(name)
		case isPlain:
			b.WriteString("." + name)
		case isName:
			b.WriteString("[" + strconv.Quote(name) + "]")
		default:
			fmt.Fprintf(&b, "[%v]", step)
		}
	}
	return b.String()
}

// collect adds the candidates of all clauses of a condition.
func (s *search) collect(traced *explanation.Trace) {
	if slices.Contains(logic, traced.Function) && len(traced.Parts) > 0 {
		for _, child := range traced.Parts {
			s.collect(child)
		}
	}
	s.collectClause(traced)
}

// collectClause adds the candidates of one clause: each of its fields gets each of its values.
func (s *search) collectClause(clause *explanation.Trace) {
	var fields [][]any
	var near, far []any
	gather(clause, 0, func(t *explanation.Trace, depth int) {
		for _, field := range fieldsOf(t) {
			if field.Variable == s.variable && len(field.Path) > 0 && len(fields) < maxClauseFields {
				fields = append(fields, field.Path)
			}
		}
		//guard:explain-secrets-values-of-near-misses
		if isOwn := t.Field != nil && t.Field.Variable == s.variable; isOwn || t.Value == nil || s.secrecy.hidesAny(t.Reads) {
			return // a near miss shows the value
		}
		data, ok := dataOf(t.Value)
		if !ok {
			return
		}
		list, isList := data.([]any)
		if isList || depth > 1 {
			far = append(far, data)
		}
		switch {
		case depth > 1:
			far = append(far, list...)
		case depth == 1:
			near = append(append(near, list...), data)
		default:
			near = append(near, list...)
		}
	})
	for _, path := range fields {
		s.change(clause, path, near[:min(len(near), maxClauseValues)], far[:min(len(far), maxClauseValues)])
	}
}

// fieldsOf returns the fields that a part is about.
func fieldsOf(t *explanation.Trace) (fields []*explanation.Field) {
	if t.Field != nil {
		fields = append(fields, t.Field)
	}
	if t.Element != nil {
		for _, field := range []*explanation.Field{t.Element.Field, t.Element.KeyOf} {
			if field != nil {
				fields = append(fields, field)
			}
		}
	}
	return fields
}

func gather(t *explanation.Trace, depth int, visit func(t *explanation.Trace, depth int)) {
	visit(t, depth)
	for _, child := range t.Parts {
		gather(child, depth+1, visit)
	}
}

// change adds the candidates for one field of a clause.
func (s *search) change(clause *explanation.Trace, path []any, near, far []any) {
	old, has := valueAt(s.object, path)
	for _, v := range near {
		switch clause.Function {
		case operators.Equals, operators.NotEquals, operators.In:
			s.restore(rankCompared, path, old, v)
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			s.add(rankCompared, path, v)
			s.add(rankCompared, path, plus(v, -1))
			s.add(rankCompared, path, plus(v, 1))
		default:
			s.join(clause.Function, path, old, v)
			s.add(rankOther, path, v)
		}
		if list, isList := old.([]any); isList {
			s.add(rankJoined, path, append(slices.Clone(list), v))
			rest, r := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return reflect.DeepEqual(e, v) }), rankJoined
			if len(rest) == 0 {
				r = rankRemoved
			}
			s.add(r, path, rest)
		}
	}
	if stored, ok := valueAt(s.stored, path); ok && s.variable == cel.Object {
		s.restore(rankStored, path, old, stored)
	}
	if on, isBool := old.(bool); isBool {
		s.add(rankFlipped, path, !on)
	}
	if !has && clause.Function == "" {
		s.add(rankFlipped, path, true)
	}
	if has && s.mayChange(path) {
		s.candidates = append(s.candidates, candidate{rank: rankRemoved, path: path, remove: true})
	}
	for _, v := range s.kind.EnumOf(path) {
		s.add(rankEnum, path, v)
	}
	for _, v := range far {
		s.add(rankOther, path, v)
	}
	s.addConstants(path, slices.Concat(near, far))
	if names := namesOf(path); len(names) == 3 && names[0] == "metadata" && (names[1] == "labels" || names[1] == "annotations") {
		s.add(rankExample, path, example)
	}
}

// addConstants adds the values with which other policies compare the same field.
func (s *search) addConstants(path []any, values []any) {
	key := pathText(path)
	for _, v := range s.constants[key] {
		s.add(rankOther, path, v)
	}
	s.constants[key] = append(s.constants[key], values...)
}

// join adds the text of a field with a constant that it must begin with, end with or contain.
func (s *search) join(function string, path []any, old, v any) {
	text, isText := v.(string)
	now, _ := old.(string)
	switch {
	case !isText:
	case function == "startsWith":
		s.add(rankJoined, path, text+now)
	case function == "endsWith", function == "contains":
		s.add(rankJoined, path, now+text)
	}
}

// restore adds the value that a field should have. If it is a map that differs in one entry, restore adds only this entry.
func (s *search) restore(r rank, path []any, old, wanted any) {
	before, isMap := wanted.(map[string]any)
	now, isStillMap := old.(map[string]any)
	if !isMap || !isStillMap {
		s.add(r, path, wanted)
		return
	}
	var different []string
	for name := range sets.KeySet(before).Union(sets.KeySet(now)) {
		_, was := before[name]
		if _, is := now[name]; is != was || !reflect.DeepEqual(before[name], now[name]) {
			different = append(different, name)
		}
	}
	if len(different) != 1 {
		s.add(r, path, wanted)
		return
	}
	below := append(slices.Clone(path), different[0])
	if value, ok := before[different[0]]; ok {
		s.restore(r, below, now[different[0]], value)
	} else if s.mayChange(below) {
		s.candidates = append(s.candidates, candidate{rank: r, path: below, remove: true})
	}
}

// plus adds to an integer. It returns nil for other values.
func plus(v any, number int64) any {
	if n, ok := v.(int64); ok {
		return n + number
	}
	return nil
}

// add adds a candidate that sets a field, unless the value has another type than the present one.
func (s *search) add(r rank, path []any, to any) {
	old, has := valueAt(s.object, path)
	if to == nil || !s.mayChange(path) || has && (kindOf(old) != kindOf(to) || reflect.DeepEqual(old, to)) || len(s.candidates) > maxCandidates*int(ranks) || len(jsonText(to, maxMissBytes+1)) > maxMissBytes {
		return
	}
	c := candidate{rank: r, path: path, to: to}
	if !slices.ContainsFunc(s.candidates, func(other candidate) bool { return reflect.DeepEqual(c, other) }) {
		s.candidates = append(s.candidates, c)
	}
}

// kindOf returns the kind of a value in JSON, in which all numbers have one kind.
func kindOf(v any) reflect.Kind {
	kind := reflect.ValueOf(v).Kind()
	if kind == reflect.Int64 {
		return reflect.Float64
	}
	return kind
}

// settable are the fields of metadata that a user chooses.
var settable = []string{"labels", "annotations", "finalizers", "ownerReferences", "generateName"}

// mayChange reports whether another value of a field would be the same request with another object. It is false for fields that identify
// the object, for fields that the server sets, and for fields that the server ignores in such a request.
func (s *search) mayChange(path []any) bool {
	names := namesOf(path)
	if len(names) == 0 || len(path) == 1 && slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, names[0]) {
		return false
	}
	subresource, name := "", ""
	if a := s.request.Spec.ResourceAttributes; a != nil {
		subresource, name = a.Subresource, a.Name
	}
	switch {
	case names[0] == "metadata" && len(names) > 1 && names[1] == "name":
		return s.variable == cel.Object && s.request.Data.Operation == "CREATE" && subresource == "" && name == ""
	case names[0] == "metadata":
		return len(names) > 1 && slices.Contains(settable, names[1])
	case names[0] == "status":
		return subresource == "status"
	}
	return subresource != "status"
}

// valueAt returns the value of a field.
func valueAt(object map[string]any, path []any) (any, bool) {
	var now any = object
	for _, step := range path {
		next, has := openapi.ValueOf(now, step)
		if !has {
			return nil, false
		}
		now = next
	}
	return now, true
}

// apply returns a copy of an object with the change. It returns false if the object has no place for it.
func (c candidate) apply(object map[string]any) (map[string]any, bool) {
	changed, ok := c.applyTo(runtime.DeepCopyJSONValue(object), c.path)
	result, isMap := changed.(map[string]any)
	return result, ok && isMap
}

// applyTo changes a value below a path.
func (c candidate) applyTo(now any, path []any) (any, bool) {
	if len(path) == 0 {
		return c.to, true
	}
	isLast := len(path) == 1
	switch step := path[0].(type) {
	case string:
		if now == nil {
			now = map[string]any{}
		}
		entries, ok := now.(map[string]any)
		if !ok {
			return nil, false
		}
		if c.remove && isLast {
			delete(entries, step)
			return entries, true
		}
		entries[step], ok = c.applyTo(entries[step], path[1:])
		return entries, ok
	case int64:
		list, _ := now.([]any)
		if step < 0 || step >= int64(len(list)) {
			return nil, false
		}
		if c.remove && isLast {
			return slices.Delete(list, int(step), int(step)+1), true
		}
		next, ok := c.applyTo(list[step], path[1:])
		list[step] = next
		return list, ok
	}
	return nil, false
}
