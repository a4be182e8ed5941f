package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// refusingExtension answers each call with the error that its arguments state.
func refusingExtension() *sdk.Extension {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "refuse", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in struct {
			Message string          `json:"message"`
			Times   int             `json:"times"`
			Data    json.RawMessage `json:"data"`
		}) (string, error) {
			return "", &sdk.Error{Code: -32050, Message: strings.Repeat(in.Message, max(1, in.Times)), Data: in.Data}
		})
	return x
}

// errorGuard is a native policy that denies errors about mallory, and expects the error in every
// form of the protocol.
func errorGuard() *sdk.Extension {
	x := sdk.New("1")
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		if e.Error != nil && e.Error.Code == -32050 && strings.Contains(e.Error.Message, "mallory") &&
			strings.Contains(string(e.Response), "mallory") {
			return sdk.Deny("no_mallory", "mallory is not named"), nil
		}
		return sdk.Allow(), nil
	})
	return x
}

// An extension's error passes the response flow like a result.
func TestErrorsPassTheResponsePolicies(t *testing.T) {
	processtest.Leaks(t)
	specs := map[string]governance.Spec{
		"cel error": {
			Category: governance.Authorization,
			Builtin:  "cel",
			Config:   map[string]any{"when": `error != null && error.message.contains("mallory")`},
		},
		"cel data": {
			Category: governance.Authorization,
			Builtin:  "cel",
			Config: map[string]any{
				"when": `flow == "response" && has(error.data.who) && error.data.who == "mallory"`,
			},
		},
		"cel result": {
			Category: governance.Authorization,
			Builtin:  "cel",
			Config:   map[string]any{"when": `result.content.exists(c, c.text.contains("mallory"))`},
		},
		"schema": {
			Category: governance.Validation,
			Builtin:  "schema",
			Config: map[string]any{
				"schemas": []any{
					map[string]any{
						"error": map[string]any{
							"properties": map[string]any{
								"message": map[string]any{"not": map[string]any{"pattern": "mallory"}},
							},
						},
					},
				},
			},
		},
		"redact": {
			Category: governance.Content,
			Builtin:  "redact",
			Config:   map[string]any{"patterns": map[string]any{"name": "mallory"}},
		},
		"native": hosttest.GuardSpec(t, "guard", "errorguard"),
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			spec.Name = strings.ReplaceAll(name, " ", "_")
			f := hosttest.NewFolder(t).Add("x", "[capabilities]\ntools = [\"refuse\"]\n"+hosttest.Plays("refusing", ""))
			cfg := f.Config()
			cfg.Plugins = []governance.Spec{spec}
			h := f.OpenWith(cfg, exthost.Options{PolicyKinds: exthost.PolicyKinds{CEL: celpolicy.New}})
			w := overStreamable(t, h, "/mcp", false)
			call := func(id int, name string) string {
				return w.request(t, id, "tools/call",
					`"name":"ext_x_refuse","arguments":{"message":"no `+name+` here","data":{"who":"`+name+`"}}`)
			}
			if got := call(1, "ada"); !strings.Contains(got, "no ada here") || !strings.Contains(got, "-32050") {
				t.Errorf("an error that the policy allows: %s", got)
			}
			if got := call(2, "mallory"); strings.Contains(got, "no mallory here") ||
				strings.Contains(got, `"who"`) && name != "redact" || strings.Contains(got, "no ada here") {
				t.Errorf("an error that the policy does not allow: %s", got)
			}
		})
	}
}

// A policy whose expression fails on an error withholds the error's text and says so. One that
// tests error == null first lets it pass.
func TestExpressionOnAnError(t *testing.T) {
	processtest.Leaks(t)
	for when, want := range map[string]string{
		`result.structuredContent.amount > 1000`: "policy limit could not decide about the " +
			"extension's error -32050, whose text is withheld: no such key: amount; test error == null first",
		`error == null && result.structuredContent.amount > 1000`: "a secret",
	} {
		f := hosttest.NewFolder(t).Add("x", "[capabilities]\ntools = [\"refuse\"]\n"+hosttest.Plays("refusing", ""))
		cfg := f.Config()
		cfg.Plugins = []governance.Spec{
			{
				Name:     "limit",
				Category: governance.Authorization,
				Builtin:  "cel",
				Config:   map[string]any{"when": when},
			},
		}
		h := f.OpenWith(cfg, exthost.Options{PolicyKinds: exthost.PolicyKinds{CEL: celpolicy.New}})
		_, err := h.Call(hosttest.Deadline(t), "ext_x_refuse",
			map[string]any{"message": "a secret", "data": map[string]any{"n": 1}})
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "a secret") != (want == "a secret") {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// An error longer than the limit for results is cut like a result.
func TestSizeCapCutsErrors(t *testing.T) {
	f := hosttest.NewFolder(t).Add("x", "[capabilities]\ntools = [\"refuse\"]\n"+hosttest.Plays("refusing", ""))
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{
		{
			Name:     "cap",
			Category: governance.Content,
			Builtin:  "size_cap",
			Config:   map[string]any{"max_bytes": 2048, "preview_bytes": 100},
		},
	}
	w := overStreamable(t, f.OpenWith(cfg, exthost.Options{}), "/mcp", false)
	for id, arguments := range map[int]string{
		1: `{"message":"0123456789","times":500000}`,
		2: `{"message":"short","data":{"rows":"` + strings.Repeat("x", 100000) + `"}}`,
	} {
		got := w.request(t, id, "tools/call", `"name":"ext_x_refuse","arguments":`+arguments)
		if len(got) > 4096 || !strings.Contains(got, "-32050") || !strings.Contains(got, "exthost_result_page") {
			t.Errorf("%d: %d bytes: %.600s", id, len(got), got)
		}
	}
}

// An invalid frame reaches the operator and no client, because no policy sees it.
func TestInvalidFramesDoNotReachClients(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", `[capabilities]
tools = ["t"]
[transport]
command = "sh"
args = ["-c", '''
read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}'
while read -r line; do case $line in *tools/call*) id=${line#*'"id":'}; echo '{"jsonrpc":"2.0","id":'${id%%,*}',"mallory":"was here"}';; esac; done''']
`)
	f.Add("l", "[transport]\nscript = \"l.sh\"\nprotocol = \"lite\"\n[[tools]]\nname = \"t\"\n")
	f.Write("l/l.sh", "#!/bin/sh\nwhile read -r line; do echo 'it was mallory'; done\n")
	h := f.Open(exthost.Options{})
	w := overStreamable(t, h, "/mcp", false)
	for id, tool := range []string{"ext_x_t", "ext_l_t"} {
		got := w.request(t, id+1, "tools/call", `"name":"`+tool+`","arguments":{}`)
		if strings.Contains(got, "mallory") || !strings.Contains(got, `"kind":"invalid_`) ||
			!strings.Contains(got, `"line_bytes":`) {
			t.Errorf("%s: %s", tool, got)
		}
		_, err := h.Call(hosttest.Deadline(t), tool, nil)
		if e := protocol.EvidenceOf(err); e == nil || !strings.Contains(e.Line, "mallory") {
			t.Errorf("%s: the operator sees %v, %+v", tool, err, e)
		}
	}
}
