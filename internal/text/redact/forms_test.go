package redact

import (
	"fmt"
	"strings"
	"testing"
)

// Every notation of a known secret is masked, so that its middle never shows.
func TestKnownValuesAsTheyAreWritten(t *testing.T) {
	for secret, texts := range map[string][]string{
		"hunter2!canary word/#1*": {
			"hunter2!canary%20word%2F%231*",     // encodeURIComponent
			"hunter2%21canary%20word/%231%2A",   // urllib.parse.quote
			"hunter2%21canary+word%2F%231%2A",   // url.QueryEscape
			"hunter2%21canary%20word%2f%231%2a", // lower-case digits
		},
		`hunter2"canary'<`: {"hunter2&quot;canary&#x27;&lt;", "hunter2&quot;canary&apos;&lt;",
			"hunter2&quot;canary&#39;&lt;", "hunter2&#34;canary&#39;&lt;"},
		// trimmed; as a shell passes it on
		"  hunter2  canary \n": {"hunter2  canary", "hunter2 canary"},
		"hunter2\x1bcanary":    {`hunter2\x1bcanary`, "hunter2canary", `hunter2\u001bcanary`},
		"hunter2\xff\xfecanary": {`hunter2\xff\xfecanary`, "hunter2\uFFFDcanary",
			"hunter2\uFFFD\uFFFDcanary"},
		"hunter2\u202ecanary": {`hunter2\u202ecanary`, "hunter2canary"},
		"first-line-canary\r\nsecond-line-canary": {"first-line-canary", "second-line-canary",
			`first-line-canary\r\nsecond-line-canary`},
	} {
		r := new(Redactor)
		r.SetSecrets([]string{secret})
		for _, text := range append(texts, secret, fmt.Sprintf("%q", secret), fmt.Sprintf("%+q", secret)) {
			if got := r.Known("it is " + text + "."); strings.Contains(got, "canary") ||
				!strings.HasPrefix(got, "it is ") {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}
