package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Codes are part of the contract: each kind has its own, outside of the range for extensions.
func TestCodesAreFixed(t *testing.T) {
	seen := map[int]Kind{}
	for _, k := range Kinds() {
		c := k.Code()
		if standard := c <= -32600 && c >= -32700; !standard && (c > -32001 || c < -32099) {
			t.Errorf("%s has code %d", k, c)
		} else if other, taken := seen[c]; taken && !standard {
			t.Errorf("%s and %s share %d", k, other, c)
		}
		seen[c] = k
	}
	if len(Kinds()) != len(codes)+1 { // extension_error has the code of the extension's error
		t.Errorf("%d kinds, %d codes", len(Kinds()), len(codes))
	}
}

func TestErrorsOnTheWire(t *testing.T) {
	code := 3
	e := Errorf(ChildExited, "the process ended: %w", context.Canceled)
	e.Extension, e.Outcome, e.RetryAfter = "weather", "unknown", 1500*time.Millisecond
	e.Evidence = &Evidence{ExitCode: &code, Stderr: []string{"secret path"}, Line: "a secret"}
	for name, tt := range map[string]struct {
		err  *Error
		want string
	}{
		"host": {e, `{"code":-32010,"message":"weather: the process ended: context canceled (child_exited)","data":{"kind":"child_exited","extension":"weather","outcome":"unknown","retry_after_ms":1500,"exit_code":3,"line_bytes":8}}`},
		"child": {&Error{
			Kind:      ExtensionError,
			Code:      -32042,
			Message:   "closed",
			Extension: "weather",
			Data:      json.RawMessage(`{"n":12345678901234567890}`),
		},
			`{"code":-32042,"message":"closed","data":{"n":12345678901234567890}}`},
		"bad data": {&Error{Kind: Rejected, Message: "no", Data: json.RawMessage(`{`)},
			`{"code":-32031,"message":"no (rejected)","data":{"kind":"rejected"}}`},
	} {
		if got, err := json.Marshal(tt.err.Wire()); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, tt.want)
		}
	}
	if !errors.Is(e, context.Canceled) || !errors.Is(e, &Error{Kind: ChildExited}) ||
		errors.Is(e, &Error{Kind: Failed}) {
		t.Error("an error is its cause and its kind, and no other")
	}
}

func TestKindOf(t *testing.T) {
	for want, err := range map[Kind]error{
		"": nil, Canceled: fmt.Errorf("x: %w", context.Canceled), CallTimeout: context.DeadlineExceeded,
		Overloaded: fmt.Errorf("x: %w", Errorf(Overloaded, "full")),
	} {
		if got := KindOf(err); got != want {
			t.Errorf("KindOf(%v) = %q, want %q", err, got, want)
		}
	}
}

func TestToolResult(t *testing.T) {
	r := ToolResult(`{"content":[{"type":"text","text":"a"},{"type":"image","data":""},{"type":"text","text":"b"}],"structuredContent":{"n":1e3},"isError":true}`)
	if r.Text() != "a\nb" || string(r.Structured()) != `{"n":1e3}` || !r.IsError() {
		t.Errorf("read %q, %s, %v", r.Text(), r.Structured(), r.IsError())
	}
	if r := ToolResult(`[1]`); r.Text() != "" || r.Structured() != nil || r.IsError() {
		t.Error("what is no result reads as an empty one")
	}
}

func TestDiagnosticText(t *testing.T) {
	d := Diagnostic{Path: "x/plugin.toml", Line: 3, Column: 1, Message: "no", Hint: "mend it"}
	if got := d.String(); got != "x/plugin.toml:3:1: no; mend it" {
		t.Errorf("got %q", got)
	}
	if got := (Diagnostic{Extension: "x", Message: "no"}).String(); got != "x: no" {
		t.Errorf("got %q", got)
	}
}

func TestComplaintNamesTheError(t *testing.T) {
	for want, stderr := range map[string]string{
		"": "",
		"ModuleNotFoundError: No module 'x'": "Traceback (most recent call last):\n  File \"c.py\", line " +
			"3\nModuleNotFoundError: No module 'x'",
		"Error: Cannot find module 'x'": "node:internal:1\n  throw err;\n\nError: Cannot find module " +
			"'x'\nRequire stack:\n    at error (a.js:1)\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.11.0",
		"panic: boom": "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:5",
		"error: boom": "error: boom\nbye",
		"npm error 404 Not Found - GET https://registry.npmjs.org/x": "npm warn exec\nnpm error code E404\nnpm error " +
			"404 Not Found - GET https://registry.npmjs.org/x\nnpm error 404\nnpm error A complete log of this run " +
			"can be found in: /x.log",
		"it broke":                              "it broke\nnpm notice new version\n",
		"bye":                                   "hello\n  bye\n\n",
		"x.sh: 3: Syntax error: \"fi\" unknown": "x.sh: 3: Syntax error: \"fi\" unknown",
	} {
		e := Evidence{Stderr: strings.Split(stderr, "\n")}
		if got := e.Complaint(); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}
