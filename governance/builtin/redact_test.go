package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// Fake secrets, assembled here so that scanners do not report this file.
var planted = map[string]string{
	"aws-access-token": "AKIA" + "Z7QK3MPLW2RT5XVB",
	"github-pat":       "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
	"card":             "4111-1111" + "-1111-1111",
	"email":            "jane.doe" + "@example.com",
	"private-key": "-----BEGIN EC PRIVATE " + "KEY-----\n" + strings.Repeat("Zm9vYmFyYmF6cXV4/+aA\n",
		9) + "-----END EC PRIVATE KEY-----",
}

// policy returns a built-in policy of category content, or of the given one.
func policy(t testing.TB, name string, config map[string]any) governance.Policy {
	t.Helper()
	p, err := New(governance.Spec{Name: name, Builtin: name, Category: governance.Content, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func decide(t testing.TB, p governance.Policy, flow governance.Flow, x *governance.Exchange) governance.Decision {
	t.Helper()
	d, err := p.Decide(t.Context(), flow, x)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRedactionSelfTest plants secrets in arguments and in a result of 1 MiB, plain and
// escaped.
func TestRedactionSelfTest(t *testing.T) {
	p := policy(t, "redact", nil)
	fill := strings.Repeat("nothing to see here; key: value, token, password\n", 1<<20/50)
	for name, secret := range planted {
		quoted := string(rawjson.AppendText(nil, secret))
		escaped := `"\u00` + string("0123456789abcdef"[secret[0]>>4]) + string("0123456789abcdef"[secret[0]&15]) +
			quoted[2:]
		big := string(rawjson.AppendText(nil, fill+secret+fill))
		for how, d := range map[string]governance.Decision{
			"arguments": decide(t, p, governance.Request,
				&governance.Exchange{
					Request: []byte(`{"name":"t","arguments":{"x":[` + quoted + `]},"_meta":{"progressToken":7}}`),
				}),
			"escaped": decide(t, p, governance.Request,
				&governance.Exchange{Request: []byte(`{"name":"t","arguments":{"x":` + escaped + `}}`)}),
			"result": decide(t, p, governance.Response,
				&governance.Exchange{Response: []byte(`{"content":[{"type":"text","text":` + big + `}]}`)}),
			"structure": decide(t, p, governance.Response,
				&governance.Exchange{
					Response: []byte(`{"content":[],"structuredContent":{"deep":{"er":[1,` + escaped + `]}}}`),
				}),
		} {
			var all any
			if err := json.Unmarshal(d.JSON, &all); err != nil {
				t.Fatalf("%s in %s: %v", name, how, err)
			}
			said, _ := json.Marshal(all) // without the original escapes
			if d.Action != governance.Modify || strings.Contains(string(said), quoted[1:len(quoted)-1]) {
				t.Errorf("%s survives in %s", name, how)
			}
			if string(d.Data) != `{"found":{"`+name+`":1}}` {
				t.Errorf("%s in %s: data %s", name, how, d.Data)
			}
		}
	}
}

func TestRedactionLeavesTheRest(t *testing.T) {
	p := policy(t, "redact", map[string]any{"rules": map[string]any{"generic-api-key": true}})
	const meta = `"_meta":{"progressToken":"aB3dE6gH9jK2mN5pQ8rS"}`
	request := `{"name":"t","arguments":{"n":1e3,"mail":"a@example.com"},` + meta + `}`
	d := decide(t, p, governance.Request, &governance.Exchange{Request: []byte(request)})
	if want := strings.Replace(request, "a@example.com", "[redacted:email]", 1); string(d.JSON) != want {
		t.Errorf("got  %s\nwant %s", d.JSON, want)
	}
	request = `{"_meta":{"progressToken":"aB3dE6gH9jK2mN5pQ8rS","mail":"a@example.com"},"name":"t"}`
	d = decide(t, p, governance.Request, &governance.Exchange{Request: []byte(request)})
	if want := strings.Replace(request, "a@example.com", "[redacted:email]", 1); string(d.JSON) != want {
		t.Errorf("got  %s\nwant %s", d.JSON, want)
	}
	d = decide(t, p, governance.Request, &governance.Exchange{Request: []byte(`{"a":1}`)})
	if d.Action != governance.Allow {
		t.Errorf("clean: %+v", d)
	}
	d = decide(t, p, governance.Response, &governance.Exchange{})
	if d.Action != governance.Allow {
		t.Errorf("nothing: %+v", d)
	}
}

func TestRedactionDenies(t *testing.T) {
	p := policy(t, "redact", map[string]any{"action": "deny"})
	secret := planted["github-pat"]
	d := decide(t, p, governance.Request, &governance.Exchange{Request: []byte(`{"a":"` + secret + `"}`)})
	if d.Action != governance.Deny || d.Code != "secret_found" || d.JSON != nil ||
		!strings.Contains(d.Reason, "github-pat") || strings.Contains(d.Reason+string(d.Data), secret) {
		t.Errorf("%+v", d)
	}
}

func TestRedactionConfigIsRefused(t *testing.T) {
	for want, s := range map[string]governance.Spec{
		`"mask" is none of`: {
			Category: governance.Content,
			Config:   map[string]any{"action": "mask"},
		},
		`rule: unknown key, did you mean rules?`: {Category: governance.Content, Config: map[string]any{"rule": "x"}},
		`did you mean "email"`: {
			Category: governance.Content,
			Config:   map[string]any{"rules": map[string]any{"e-mail": true}},
		},
		"so its category is content": {Category: governance.Validation},
	} {
		s.Builtin = "redact"
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s.Config, err, want)
		}
	}
}

// BenchmarkRedact decides about arguments of 256 bytes and a result of 1 MiB.
func BenchmarkRedact(b *testing.B) {
	p := policy(b, "redact", nil)
	text := strings.Repeat("The quick brown fox keeps its token in a secret place: api.example.com\\n", 1<<20/72)
	for name, raw := range map[string]string{
		"arguments/256B": `{"name":"ext_files_read","arguments":{"path":"/srv/data/reports/2024/summary.md","query":"what is the total of all regions","limit":50,"options":{"recursive":true,"encoding":"utf-8","fields":["name","size","modified"],"order":"descending"},"note":"none"}}`,
		"result/1MiB":    `{"content":[{"type":"text","text":"` + text + `"}]}`,
	} {
		x := governance.Exchange{Request: []byte(raw)}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				decide(b, p, governance.Request, &x)
			}
		})
	}
}
