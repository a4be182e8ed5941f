package redact

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Fake secrets, assembled here so that scanners do not report this file.
var (
	awsKey    = "AKIA" + "Z7QK3MPLW2RT5XVB"
	githubPAT = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	card      = "4111 1111" + " 1111 1111"
	email     = "jane.doe+test" + "@example.co.uk"
	pemKey    = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7bq6wXo3kQ\n" +
		strings.Repeat("Zm9vYmFyYmF6cXV4/+aA\n", 40) + "-----END RSA PRIVATE KEY-----"
	jwt = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

func planted() map[string]string {
	return map[string]string{
		"aws-access-token": awsKey,
		"github-pat":       githubPAT,
		"card":             card,
		"email":            email,
		"private-key":      pemKey,
		"jwt":              jwt,
	}
}

func quote(s string) string { return string(rawjson.AppendText(nil, s)) }

// escapeAll escapes every character of s.
func escapeAll(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		b.WriteString(`\u00`)
		b.WriteByte("0123456789ABCDEF"[r>>4])
		b.WriteByte("0123456789abcdef"[r&15])
	}
	b.WriteByte('"')
	return b.String()
}

func TestPlantedSecretsAreFound(t *testing.T) {
	d := Default()
	for name, secret := range planted() {
		for place, text := range map[string]string{
			"alone":    secret,
			"sentence": "It is " + secret + ", they say.",
			"code":     "x = f('" + secret + "')",
			"list":     "a;" + secret + ";b",
			"markup":   "<b>" + secret + "</b>",
			"lines":    "one\n" + secret + "\ntwo",
		} {
			got, found := d.Text(text)
			want := strings.Replace(text, secret, "[redacted:"+name+"]", 1)
			if got != want || !maps.Equal(found, Findings{name: 1}) {
				t.Errorf("%s in %s: %q, found %v", name, place, got, found)
			}
			for how, raw := range map[string]string{
				"a string":          quote(text),
				"a value":           `{"n":1e400,"text": ` + quote(text) + `,"z":[12345678901234567890]}`,
				"a key":             `{"a":{` + quote(text) + `:1}}`,
				"an element":        `[null,` + quote(text) + `,{}]`,
				"JSON in a string":  `{"text":` + quote(`{"inner":`+quote(text)+`}`) + `}`,
				"JSON three deep":   quote(quote(quote(text))),
				"escaped":           escapeAll(text),
				"escaped in a text": quote(`{"x":` + escapeAll(text) + `}`),
				"escaped two deep":  quote(quote(`{"x":` + escapeAll(text) + `}`)),
				"escaped in three":  quote(quote(quote(`{"x":` + escapeAll(text) + `}`))),
				"a key of a text":   `{` + quote(text) + `:"x"}`,
				"an escaped key":    `{` + escapeAll(text) + `:"x"}`,
				"key of an escape":  `{` + quote(text) + `:"\u0078"}`,
				"base64":            `{"blob":` + quote(base64.StdEncoding.EncodeToString([]byte(padded(text)))) + `}`,
				"base64 of JSON": `[` +
					quote(base64.RawURLEncoding.EncodeToString([]byte(padded(`{"x":`+escapeAll(text)+`}`)))) + `]`,
				"a data URL": `{"url":` +
					quote("data:text/plain;base64,"+base64.StdEncoding.EncodeToString([]byte(padded(text)))) + `}`,
			} {
				got, found, _ := d.JSON(t.Context(), []byte(raw))
				if says := meaning(t, got); strings.Contains(says, secret) || found[name] != 1 || len(found) != 1 {
					t.Errorf("%s in %s in %s: %s, found %v", name, place, how, got, found)
				}
			}
		}
	}
}

// A surrogate pair is one character of twelve bytes; half a pair is none.
func TestEscapes(t *testing.T) {
	for raw, want := range map[string]struct {
		r    rune
		size int
	}{
		`\ud83d\ude00x`: {'😀', 12},
		`\ud83dx`:       {utf8.RuneError, 6},
		`\ud83d\u0041`:  {utf8.RuneError, 6},
		`\ude00\ud83d`:  {utf8.RuneError, 6},
		`\u00e9\u00e9`:  {'é', 6},
		`\nx`:           {'\n', 2},
		`\/x`:           {'/', 2},
		`\u00`:          {utf8.RuneError, 2},
		`\x`:            {utf8.RuneError, 1},
		`\`:             {utf8.RuneError, 1},
	} {
		if r, size := decodeEscape([]byte(raw)); r != want.r || size != want.size {
			t.Errorf("%s: %q of %d bytes, want %q of %d", raw, r, size, want.r, want.size)
		}
	}
	if size, says := unescapeOne([]byte(`\ud83d\ude00x`)); size != 12 || says != 4 {
		t.Errorf("a pair has %d bytes and says %d", size, says)
	}
}

// JSON in strings is searched up to a bounded nesting.
func TestNestingIsBounded(t *testing.T) {
	raw := `{"x":` + escapeAll(awsKey) + `}`
	for range maxNesting {
		raw = quote(raw)
	}
	if _, found, _ := Default().JSON(t.Context(), []byte(raw)); len(found) != 1 {
		t.Errorf("in %d strings: %v", maxNesting, found)
	}
	if _, found, _ := Default().JSON(t.Context(), []byte(quote(raw))); len(found) != 0 {
		t.Errorf("in %d strings: %v", maxNesting+1, found)
	}
}

// padded returns text long enough to be searched as base64.
func padded(text string) string { return "what follows is a text: " + text }

// meaning decodes the strings of raw, recursively where they hold JSON.
func meaning(t *testing.T, raw []byte) string {
	t.Helper()
	if err := rawjson.Check(raw); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil && !strings.Contains(err.Error(), "1e400") {
		t.Fatalf("%v: %s", err, raw)
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
			if json.Unmarshal([]byte(v), &value) == nil {
				walk(value)
			}
		case []any:
			for _, v := range v {
				walk(v)
			}
		case map[string]any:
			for k, v := range v {
				walk(k)
				walk(v)
			}
		}
	}
	walk(value)
	return b.String()
}

func TestNothingElseChanges(t *testing.T) {
	const clean = `{ "n" : 12345678901234567890, "card": 4111111111111111, "f":[1.0e+2,-0],"s":"ü\u00fc\/\ud83d\ude00 \"x\"", "o" : {"b":null , "a":[]} }`
	got, found, _ := Default().JSON(t.Context(), []byte(clean))
	if string(got) != clean || found != nil {
		t.Errorf("clean text became %s, found %v", got, found)
	}
	dirty := strings.Replace(clean, `\"x\"`, `\"`+awsKey+`\" \u0041`, 1)
	want := strings.Replace(dirty, awsKey, "[redacted:aws-access-token]", 1)
	if got, _, _ := Default().JSON(t.Context(), []byte(dirty)); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	for _, text := range []string{
		"git@github.com:exthost/exthost.git", "lodash@4.17.21", "@property def f(self)", "a@b", "user@localhost",
		"4111 1111 1111 1112", "1700000000000000000", "f4111111111111111", "0.4111111111111111",
		"2024-01-01 10:00:00 2024-01-02",
		"https://example.com:8080/a@b", "postgres://user@host/db", "postgres://$USER:$PASSWORD@host",
		"the key is under the mat", "sk-test", "SKILLS", "api_key: ${API_KEY}", "next_page_token: abcDEF123456ghiJKL",
		"-----BEGIN CERTIFICATE-----", "eyJhbGciOiJIUzI1NiJ9 alone", "550e8400-e29b-41d4-a716-446655440000",
		"3b18e512dba79e4c8300dd08aeb37f8e728b8dad", "sourcegraph at 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
	} {
		if got, found := Default().Text(text); found != nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestSecretsInOtherFormsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://bob:hunter2@db/x":                                      "postgres://bob:[redacted:url-password]@db/x",
		`curl -H "Authorization: Bearer abcdef123456"`:                     `curl -H "Authorization: Bearer [redacted:authorization-header]"`,
		"5555-5555-5555-4444 and 378282246310005":                          "[redacted:card] and [redacted:card]",
		"\bA0 4111 1111 1111 1111 B":                                       "\bA0 [redacted:card] B",
		"2024 4111 1111 1111 1111 99":                                      "2024 [redacted:card] 99",
		"Jörg <jörg@münchen.de>":                                           "Jörg <[redacted:email]>",
		pemKey[:200]:                                                       "[redacted:private-key]",
		`aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz`: "aws_secret_access_key = [redacted:aws-secret-key]",
		"say exthost_HftaQI5W3hj--w1u-bkl_1SV0-GrxPPjofGCcjCJptQ twice":    "say [redacted:exthost-client-token] twice",
		"exthost_some_name_of_a_function_that_is_not_a_secret_at_all":      "exthost_some_name_of_a_function_that_is_not_a_secret_at_all",
		awsKey + awsKey:                                                    "[redacted:aws-access-token][redacted:aws-access-token]",
		`\n` + githubPAT + `\n`:                                            `\n[redacted:github-pat]\n`,
	} {
		if got, _ := Default().Text(text); got != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
	}
	raw := `{"secret_access_key" : "wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYzzzzzzzzzz","x":1}`
	got, _, _ := Default().JSON(t.Context(), []byte(raw))
	if string(got) != `{"secret_access_key" : "[redacted:aws-secret-key]","x":1}` {
		t.Errorf("a value whose key tells what it is: %s", got)
	}
}

func TestOptions(t *testing.T) {
	text := email + " EMP-123456 EMP-000000 +49 30 901820"
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"default": {Options{}, "[redacted:email] EMP-123456 EMP-000000 +49 30 901820"},
		"off":     {Options{Rules: map[string]bool{"email": false}}, text},
		"on": {Options{Rules: map[string]bool{"phone": true}},
			"[redacted:email] EMP-123456 EMP-000000 [redacted:phone]"},
		"patterns": {Options{Patterns: map[string]string{"emp": `EMP-(\d+)`}},
			"[redacted:email] EMP-[redacted:emp] EMP-[redacted:emp] +49 30 901820"},
		"allow": {Options{
			Patterns: map[string]string{"emp": `EMP-\d+`},
			Allow:    []string{`EMP-0+`, `.*@example\.co\.uk`},
		}, email + " [redacted:emp] EMP-000000 +49 30 901820"},
	} {
		d, err := NewDetector(tt.o)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := d.Text(text); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		`did you mean "email"?`:       {Rules: map[string]bool{"emial": false}},
		"there are 1password-":        {Rules: map[string]bool{"everything": false}},
		`patterns: "email" cannot`:    {Patterns: map[string]string{"email": "x"}},
		`patterns: "A b" cannot`:      {Patterns: map[string]string{"A b": "x"}},
		"patterns: x: the expression": {Patterns: map[string]string{"x": "("}},
		"matches an empty text":       {Patterns: map[string]string{"x": "a*"}},
		"allow: error parsing regexp": {Allow: []string{"("}},
	} {
		if _, err := NewDetector(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// Every rule compiles, and its keywords are found in capitals.
func TestEveryRuleCompiles(t *testing.T) {
	all := slices.Collect(maps.Values(rulesByID()))
	if len(all) < 200 {
		t.Errorf("%d rules", len(all))
	}
	a := newAutomaton(all)
	for _, r := range all {
		if !ruleName.MatchString(r.ID) {
			t.Errorf("rule %q cannot be named", r.ID)
		}
		if r.Regex != "" {
			r.compiled()
		}
		for _, k := range r.Keywords {
			text := []byte("€ " + strings.ToUpper(k))
			i, state := a.scan(text, 0, 0)
			for ; i < len(text); i, state = a.scan(text, i, state) {
			}
			if !slices.ContainsFunc(a.found[state/a.width], func(k keyword) bool { return k.rule == r }) {
				t.Errorf("%s: keyword %q is not found", r.ID, k)
			}
		}
	}
}

// Valid JSON stays valid, only strings change, masking is idempotent, and known secrets are masked in any context.
func FuzzJSON(f *testing.F) {
	for _, secret := range planted() {
		f.Add([]byte(`{"a":`+quote(secret)+`,"b":`+escapeAll(secret)+`}`), uint8(3))
		f.Add([]byte(quote(quote(secret))), uint8(0))
	}
	f.Add([]byte(`["\ud83d\ude00 \ud83d x\"`+"[redacted:email]"+`", 1e5, {"password":"hunter2hunter2"}]`), uint8(9))
	f.Add([]byte(`{"a":"cut \u00`), uint8(1))
	d, err := NewDetector(Options{Rules: map[string]bool{"generic-api-key": true, "phone": true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte, at uint8) {
		before := string(raw)
		out, found, _ := d.JSON(t.Context(), raw)
		if string(raw) != before {
			t.Fatal("the input was changed")
		}
		if again, more, _ := d.JSON(t.Context(), out); more != nil {
			t.Errorf("%q became %q and then %q", raw, out, again)
		}
		if (found == nil) != (string(out) == before) {
			t.Errorf("found %v, %q became %q", found, raw, out)
		}
		if rawjson.Check(raw) != nil {
			return
		}
		if err := rawjson.Check(out); err != nil {
			t.Fatalf("%q became %q: %v", raw, out, err)
		}
		if diff := cmp.Diff(skeleton(raw), skeleton(out)); diff != "" {
			t.Errorf("%q became %q: %s", raw, out, diff)
		}
		for name, secret := range planted() {
			text, _ := rawjson.Text(out)
			if strings.Contains(text, secret) {
				continue // part of a longer word
			}
			planted := quote(" " + text + " " + secret + " ")
			if got, _, _ := d.JSON(t.Context(), []byte(planted)); utf8.Valid(got) &&
				strings.Contains(meaning(t, got), secret) {
				t.Errorf("%s survives in %s", name, got)
			}
		}
	})
}

// skeleton returns raw with its strings emptied.
func skeleton(raw []byte) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		b.WriteByte(raw[i])
		if raw[i] == '"' {
			i = literalAt(raw, i).end
		}
	}
	return b.String()
}

// The search of a slow text stops when its context ends.
func TestSearchStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow := strings.Repeat("twitter=", 1<<20)
	if out, _, err := Default().JSON(ctx, []byte(quote(slow))); !errors.Is(err, context.Canceled) || out != nil {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
