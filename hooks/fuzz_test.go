package hooks

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
)

var replies = []string{``, `null`, `{}`, `{"abort":true,"reason":"x"}`, `{"decision":"deny"}`,
	`{"decision":"none","override":{"a":null}}`,
	`{"override":null,"context":"c"}`, `{"decision":"block","reason":"r"}`, `{"continue":false,"stopReason":"s"}`,
	`{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":{"b":2},"updatedToolOutput":"t","additionalContext":"c"}}`,
	`[1]`, `"x"`, `{"override":[1]}`, `{"override":{"a":1},"override":{"b":2}}`, "noise\n{\"decision\":\"approve\"}",
	`{"a":`}

// FuzzDecodeReply checks for panics, and that the payload stays one JSON object.
func FuzzDecodeReply(f *testing.F) {
	for _, s := range replies {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := DecodeReply(answer)
		if err == nil {
			check(t, BeforeToolCall, r)
		}
	})
}

// FuzzAnswer does the same for the output of commands at every point.
func FuzzAnswer(f *testing.F) {
	for _, s := range replies {
		for _, code := range []int{0, 1, 2} {
			f.Add([]byte(s), "reason", code)
		}
	}
	f.Fuzz(func(t *testing.T, stdout []byte, stderr string, code int) {
		a, err := readResult(process.Exit{Code: code}, stdout, []string{stderr})
		if err != nil {
			if code == 2 {
				t.Fatalf("exit 2 is no denial: %v", err)
			}
			return
		}
		for _, p := range points {
			r, err := a.reply(p)
			if code == 2 && (err != nil || p.Gate() && r.Decision != Deny) {
				t.Fatalf("%s: exit 2 is %+v, %v", p, r, err)
			}
			if err == nil && r != nil {
				check(t, p, r)
			}
		}
	})
}

func check(t *testing.T, p Point, r *Reply) {
	o := Outcome{Payload: json.RawMessage(`{"a":1,"tools":["x"]}`)}
	if err := o.apply(p, r); err != nil {
		if string(o.Payload) != `{"a":1,"tools":["x"]}` {
			t.Fatalf("%s: a failure changed the payload: %s", p, o.Payload)
		}
		return
	}
	if err := rawjson.Check(o.Payload); err != nil || !rawjson.IsObject(o.Payload) {
		t.Fatalf("%s: payload %q: %v", p, o.Payload, err)
	}
}
