package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// schemaConfig is the config of the built-in policy schema, which validates tool calls
// against JSON Schemas of the operator, in addition to the tool's own:
//
//	schemas:
//	- tools: ["ext_files_*"]   # globs of registered names; default: all
//	  arguments: {required: [path]}  # a schema of the arguments
//	  result: {type: object}         # a schema of the whole result: content, structuredContent, isError …
//	  error: {properties: {message: {maxLength: 200}}}  # a schema of an error: code, message, data
//
// Every schema whose tools match applies. Schemas are of draft 2020-12 unless they state
// another, and may contain internal references only.
type schemaConfig struct {
	Schemas []struct {
		Tools     glob.List       `json:"tools"`
		Arguments json.RawMessage `json:"arguments"`
		Result    json.RawMessage `json:"result"`
		Error     json.RawMessage `json:"error"`
	} `json:"schemas"`
}

type schemas []toolSchemas

type toolSchemas struct {
	tools     glob.List
	arguments *jsonschema.Schema // nil: not validated
	result    *jsonschema.Schema
	failure   *jsonschema.Schema // of an error in place of a result
}

func newSchema(s governance.Spec) (governance.Policy, error) {
	var c schemaConfig
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if len(c.Schemas) == 0 {
		return nil, settings.Wrong("config.schemas",
			`is missing; such as [{tools: ["ext_files_*"], arguments: {required: [path]}}]`)
	}
	p, errs := make(schemas, len(c.Schemas)), make([]error, 0)
	for i, entry := range c.Schemas {
		place := fmt.Sprintf("config.schemas[%d]", i)
		if err := entry.Tools.Check(); err != nil {
			errs = append(errs, settings.Wrong(place+".tools", "%w", err))
		}
		if entry.Arguments == nil && entry.Result == nil && entry.Error == nil {
			errs = append(errs, settings.Wrong(place, "needs arguments, result or error"))
		}
		p[i].tools = entry.Tools
		var err error
		if p[i].arguments, err = compileSchema(entry.Arguments); err != nil {
			errs = append(errs, settings.Wrong(place+".arguments", "%w", err))
		}
		if p[i].result, err = compileSchema(entry.Result); err != nil {
			errs = append(errs, settings.Wrong(place+".result", "%w", err))
		}
		if p[i].failure, err = compileSchema(entry.Error); err != nil {
			errs = append(errs, settings.Wrong(place+".error", "%w", err))
		}
	}
	return p, errors.Join(errs...)
}

func compileSchema(text json.RawMessage) (schema *jsonschema.Schema, err error) {
	if text == nil {
		return nil, nil
	}
	defer func() {
		if v := recover(); v != nil { // the library panics on some schemas
			err = fmt.Errorf("is no schema: %v", v)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nil) // no external references
	const address = "mem:///schema.json"
	if err := c.AddResource(address, doc); err != nil {
		return nil, err
	}
	return c.Compile(address)
}

// Decide implements [governance.Policy].
func (p schemas) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if !x.ReturnsTool() || x.Failure != nil && x.Response == nil ||
		flow == governance.Request && x.Method != protocol.MethodToolsCall {
		return governance.Decision{}, nil
	}
	var value any // decoded once, on demand
	for _, s := range p {
		schema := s.of(flow, x)
		if schema == nil || len(s.tools) > 0 && !s.tools.Match(x.Tool) {
			continue
		}
		if value == nil {
			var err error
			if value, err = payload(flow, x); err != nil {
				return governance.Decision{}, err
			}
		}
		if err := schema.Validate(value); err != nil {
			return denyMismatch(flow, x, err), nil
		}
	}
	return governance.Decision{}, nil
}

// of returns the schema for what policies see of x in the flow: the arguments, the result or the
// error.
func (s *toolSchemas) of(flow governance.Flow, x *governance.Exchange) *jsonschema.Schema {
	switch {
	case flow == governance.Request:
		return s.arguments
	case x.Failure != nil:
		return s.failure
	}
	return s.result
}

func payload(flow governance.Flow, x *governance.Exchange) (any, error) {
	if flow == governance.Response {
		return strictjson.Result(x.Response)
	}
	text := rawjson.Get(x.Request, "arguments")
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	return strictjson.Arguments(text)
}

// maxFaults bounds the errors that a denial names.
const maxFaults = 5

// denyMismatch returns a denial that names the location and the keyword of each error. It
// omits the values, because the reason reaches the caller.
func denyMismatch(flow governance.Flow, x *governance.Exchange, err error) governance.Decision {
	what := "the arguments of %s break the operator's schema"
	switch {
	case flow == governance.Response && x.Failure != nil:
		what = "the error of %s breaks the operator's schema"
	case flow == governance.Response:
		what = "the result of %s breaks the operator's schema"
	}
	d := governance.Decision{Action: governance.Deny, Reason: fmt.Sprintf(what, x.Tool)}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		found := slices.Sorted(slices.Values(faults(invalid, nil)))
		d.Reason += ": " + strings.Join(found[:min(len(found), maxFaults)], ", ")
	}
	return d
}

func faults(e *jsonschema.ValidationError, found []string) []string {
	for _, cause := range e.Causes {
		found = faults(cause, found)
	}
	if len(e.Causes) == 0 {
		fault := "/" + strings.Join(e.InstanceLocation, "/") + " is not allowed"
		if keyword := e.ErrorKind.KeywordPath(); len(keyword) > 0 {
			fault = "/" + strings.Join(e.InstanceLocation, "/") + " fails " + strings.Join(keyword, "/")
		}
		found = append(found, fault)
	}
	return found
}
