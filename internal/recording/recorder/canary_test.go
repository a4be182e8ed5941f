package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/text/redact"
)

// canary is a secret and the frames that contain it, each the value of result.
type canary struct {
	secret string
	known  bool // known to the redactor; otherwise detected by its form
	frames []string
}

func quoted(s string) string { return string(rawjson.AppendText(nil, s)) }

func escapedAll(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return `"` + b.String() + `"`
}

// canaries returns 50 secrets, each transmitted in another way.
func canaries() (all []canary) {
	n := 0
	known := func(of func(secret string) []string) {
		n++
		secret := fmt.Sprintf("Zq%02d/kW<7\"v&%d+xP\\t9é=%d", n, n*7919, n*104729)
		all = append(all, canary{secret, true, of(secret)})
	}
	plain := func(of func(secret string) []string) {
		n++
		secret := fmt.Sprintf("canary%02dwQ7xK2mB9vR4tL%d", n, n*7919)
		all = append(all, canary{secret, true, of(secret)})
	}
	one := func(f func(string) string) func(string) []string {
		return func(s string) []string { return []string{f(s)} }
	}
	ways := []func(string) string{
		quoted,
		func(s string) string { return `{"a":[1,` + quoted("before "+s+" after") + `]}` },
		func(s string) string { return `{` + quoted(s) + `:1}` },
		func(s string) string { return quoted(quoted(s)) },
		func(s string) string { return quoted(quoted(quoted(s))) },
		escapedAll,
		func(s string) string { return quoted(`{"k":` + escapedAll(s) + `}`) },
		func(s string) string { return quoted(base64.StdEncoding.EncodeToString([]byte(s))) },
		func(s string) string { return quoted(base64.RawURLEncoding.EncodeToString([]byte("xy" + s + "z"))) },
		func(s string) string { return quoted(hex.EncodeToString([]byte(s))) },
		func(s string) string { return quoted("https://host.example/?q=" + url.QueryEscape(s)) },
		func(s string) string { return quoted("https://host.example/" + url.PathEscape(s)) },
		func(s string) string { return `{"Authorization":` + quoted("Bearer "+s) + `}` },
		func(s string) string { return `{"headers":{"X-Api-Key":[` + quoted(s) + `]}}` },
		func(s string) string { return `{"env":[` + quoted("TOKEN="+s) + `]}` },
	}
	for _, way := range ways {
		known(one(way))
		plain(one(way))
	}
	for _, cut := range []int{1, 4, 12, -1, -4, -9} { // split over two frames
		plain(func(s string) []string {
			at := cut
			if at < 0 {
				at += len(s)
			}
			return []string{quoted("text " + s[:at]), quoted(s[at:] + " text")}
		})
	}
	for i, digits := range []string{"918273645546372", "5647382910657483"} { // also as a number
		all = append(all, canary{digits, true, []string{[]string{digits, "[-" + digits + ".5]"}[i]}})
	}
	token := func(secret string, of func(string) string) {
		all = append(all, canary{secret, false, []string{of(secret)}})
	}
	pat := "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	jwt := "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	aws := "AKIA" + "Z7QK3MPLW2RT5XVB"
	pem := "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7bq6wXo3kQ\n" +
		strings.Repeat("Zm9vYmFyYmF6cXV4/+aA\n", 40) + "-----END RSA PRIVATE KEY-----"
	token(pat, quoted)
	token(pat, func(s string) string { return quoted(`{"t":` + quoted(s) + `}`) })
	token(pat, escapedAll)
	token(jwt, quoted)
	token(jwt, func(s string) string { return `{"Authorization":` + quoted("Bearer "+s) + `}` })
	token(aws, func(s string) string { return `{` + quoted(s) + `:null}` })
	token(aws, func(s string) string {
		return quoted(base64.StdEncoding.EncodeToString([]byte("the key is " + s + " they say")))
	})
	token(pem, quoted)
	token("hunter2-"+"Xw93kfPz", func(s string) string { return `{"password":` + quoted(s) + `}` })
	token("Qm81Lq0zVt7"+"Rb3", func(s string) string { return quoted("postgres://app:" + s + "@db.example/x") })
	token("sk-ant-"+"api03-"+strings.Repeat("aB3dE5", 10), quoted)
	token("gsk_"+strings.Repeat("aB3dE5xYz8Qw7", 4), quoted)
	return all
}

// texts returns the line and its strings, decoded.
func texts(line []byte) string {
	var b strings.Builder
	var add func(text string, depth int)
	add = func(text string, depth int) {
		b.WriteString(text + "\x00")
		if depth > 4 {
			return
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		for {
			token, err := d.Token()
			if err != nil {
				return
			}
			if s, ok := token.(string); ok {
				add(s, depth+1)
				for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
					if decoded, err := encoding.DecodeString(s); err == nil {
						b.Write(decoded)
					}
				}
				if decoded, err := hex.DecodeString(s); err == nil {
					b.Write(decoded)
				}
				if decoded, err := url.QueryUnescape(s); err == nil {
					b.WriteString(decoded)
				}
				if decoded, err := url.PathUnescape(s); err == nil {
					b.WriteString(decoded)
				}
			}
		}
	}
	add(string(line), 0)
	return b.String()
}

func TestNoneOf50CanariesIsInTheFile(t *testing.T) {
	all := canaries()
	if len(all) != 50 {
		t.Fatalf("%d canaries", len(all))
	}
	secrets := new(redact.Redactor)
	var values []string
	for _, c := range all {
		if c.known {
			values = append(values, c.secret)
		}
	}
	secrets.SetSecrets(values)
	for _, place := range []string{"result", "params"} {
		for i, c := range all {
			var out bytes.Buffer
			h := New("1.0", secrets)
			r, err := h.Record(Options{To: &out})
			if err != nil {
				t.Fatal(err)
			}
			w := h.Wire("a")
			w.Start(cassette.Start{})
			for _, value := range c.frames {
				w.Frame(place == "params", nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,%q:%s}`, place, value))
			}
			if err := r.End(""); err != nil {
				t.Fatal(err)
			}
			cassetteIn(t, out.Bytes())
			var said strings.Builder
			joined := ""
			for line := range bytes.Lines(out.Bytes()) {
				said.WriteString(texts(line))
				var n struct {
					Sent, Received struct{ Result, Params string }
				}
				if json.Unmarshal(line, &n) == nil {
					joined += n.Sent.Params + n.Received.Result
				}
			}
			if strings.Contains(said.String(), c.secret) || strings.Contains(joined, c.secret) {
				t.Errorf("canary %d, %s, is in the %s:\n%s", i, c.secret, place, out.String())
			}
			if strings.Contains(out.String(), "omitted") {
				t.Errorf("canary %d: a frame is lost", i)
			}
		}
	}
}

// TestWhatIsNoSecretStays checks that masking changes no other byte of a frame.
func TestWhatIsNoSecretStays(t *testing.T) {
	secrets := new(redact.Redactor)
	secrets.SetSecrets([]string{"opensesame-one"})
	before := `{ "a" : 12345678901234567890, "b":"\u0061\/ <é>", "c": [1.0E+2,null ,true], "d":"x opensesame-one y"}`
	got := secrets.Snapshot().Recorded([]byte(before))
	if want := strings.Replace(before, "opensesame-one", "***", 1); string(got) != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// TestPiecesOfSecretsAreMaskedFrom16BytesOn splits over two frames a secret, and one that is too short to be found in
// pieces.
func TestPiecesOfSecretsAreMaskedFrom16BytesOn(t *testing.T) {
	for secret, stays := range map[string]bool{"quiet-harbour-77": false, "quiet-harbour-7": true} {
		var secrets redact.Redactor
		secrets.SetSecrets([]string{secret})
		for _, piece := range []string{secret[:8], secret[8:]} {
			frame := `{"text":"` + piece + `"}`
			if got := string(secrets.Snapshot().Recorded([]byte(frame))); (got == frame) != stays {
				t.Errorf("%d bytes: %s is recorded as %s", len(secret), frame, got)
			}
		}
	}
}
