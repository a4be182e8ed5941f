package logins_test

import (
	"maps"
	"testing"

	"github.com/exthost/exthost/internal/secret/logins"
)

// TestBearer finds the Bearer challenge among others, even in headers that RFC 9110 does not allow.
func TestBearer(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   map[string]string // nil: no Bearer challenge
	}{
		{nil, nil},
		{[]string{""}, nil},
		{[]string{"Basic"}, nil},
		{[]string{`Basic realm="Bearer"`}, nil},
		{[]string{"Bearer"}, map[string]string{}},
		{[]string{"bEARER"}, map[string]string{}},
		{[]string{`Bearer scope="a b", error="insufficient_scope"`},
			map[string]string{"scope": "a b", "error": "insufficient_scope"}},
		{[]string{`Bearer Scope=a,ERROR=b`}, map[string]string{"scope": "a", "error": "b"}},
		{[]string{`Bearer scope = "a" , error= b`}, map[string]string{"scope": "a", "error": "b"}},
		{[]string{`Bearer realm="", scope=""`}, map[string]string{"realm": "", "scope": ""}},
		{[]string{`Bearer realm="a \"b\", Basic c=\\", scope="d"`},
			map[string]string{"realm": `a "b", Basic c=\`, "scope": "d"}},
		{[]string{`Bearer scope="a", scope="b"`}, map[string]string{"scope": "a"}},
		{[]string{`Bearer scope="a", Basic realm="x", scope="b"`}, map[string]string{"scope": "a"}},
		{[]string{`Bearer scope="a", Bearer scope="b"`}, map[string]string{"scope": "a"}},
		{[]string{`Basic realm="x", Bearer scope="a"`}, map[string]string{"scope": "a"}},
		{[]string{`Basic realm="x" Bearer scope="a"`}, map[string]string{"scope": "a"}},
		{[]string{"Basic", "Negotiate", `Bearer scope="a"`}, map[string]string{"scope": "a"}},
		{[]string{`Negotiate dG9rZW4=, Bearer scope="a"`}, map[string]string{"scope": "a"}},
		{[]string{`Negotiate dG9rZW4, Bearer scope="a"`}, map[string]string{"scope": "a"}},
		{[]string{`,, ,Bearer ,scope="a",`}, map[string]string{"scope": "a"}},
		{[]string{`Bearer realm="unterminated`}, map[string]string{"realm": "unterminated"}},
		{[]string{`Bearer realm="x\`}, map[string]string{"realm": `x\`}},
		{[]string{`=;"Bearer`}, map[string]string{}},
	} {
		got, ok := logins.Bearer(tt.values)
		if ok != (tt.want != nil) || ok && !maps.Equal(got, tt.want) {
			t.Errorf("%q: %q, %t", tt.values, got, ok)
		}
	}
}

func FuzzBearer(f *testing.F) {
	f.Add(`Negotiate dG9rZW4=, Bearer realm = "a \"b", scope=c`)
	f.Fuzz(func(t *testing.T, value string) {
		if got, ok := logins.Bearer([]string{value}); ok && len(got) > len(value) {
			t.Errorf("%q: %q", value, got)
		}
	})
}
