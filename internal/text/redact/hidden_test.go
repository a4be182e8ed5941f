package redact

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/exthost/exthost/internal/text/display"
)

// some returns n characters of an alphabet, no two equal neighbours.
func some(alphabet string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(alphabet[(i*7+i/len(alphabet))%len(alphabet)])
	}
	return b.String()
}

const (
	alnum = "aB3dE7gH1jK9mN5pQ2rS8tU4vW6xY0z"
	hexes = "0a9b8c7d6e5f4132"
)

// A secret with invisible characters inside is found and masked with them.
func TestHiddenCharactersWithin(t *testing.T) {
	for _, c := range []string{"\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u2062", "\u202e", "\ufe0f", "\u3164",
		"\U000e0041", "\x00", "\x1b", "\x7f", "\u0085"} {
		broken := githubPAT[:7] + c + githubPAT[7:20] + c + c + githubPAT[20:]
		text := "— it is “" + broken + "” " + c + "end"
		want := "— it is “[redacted:github-pat]” " + c + "end"
		if got, _ := Default().Text(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
		raw := `{"x":` + quote(text) + `,"y":"` + githubPAT[:9] + `\u200b` + githubPAT[9:] + `"}`
		got, _, _ := Default().JSON(t.Context(), []byte(raw))
		if string(got) != `{"x":`+quote(want)+`,"y":"[redacted:github-pat]"}` {
			t.Errorf("JSON became %s", got)
		}
	}
}

// All invisible characters are known.
func TestInvisibleCharactersAreKnown(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		want := display.Visible(string(r)) == "" && r != '\r'
		if got := hasHidden([]byte("a" + string(r) + "b")); got != want {
			t.Errorf("%U: %t, want %t", r, got, want)
		}
	}
}

// Base64 within another text is decoded anywhere, and masked as a whole.
func TestBase64WithinAText(t *testing.T) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		encoded := strings.TrimRight(encoding.EncodeToString([]byte("config: token "+githubPAT+" of the bot")), "=")
		for before, after := range map[string]string{
			"the file is ": ", and so on",
			"data: ":       "",
			"x=":           "\n",
			"-----\n":      "==\n-----",
		} {
			text := strings.Repeat("words ", 40) + before + encoded + after
			if got, _ := Default().Text(text); got != strings.Replace(text, encoded, "[redacted:github-pat]", 1) {
				t.Errorf("%q became %q", text[240:], got[240:])
			}
			if got, _, _ := Default().JSON(t.Context(), []byte(`{"x":`+quote(text)+`}`)); strings.Contains(string(got),
				encoded) {
				t.Errorf("in JSON: %s", got)
			}
		}
	}
}

// A secret across lines of base64 is found, and all lines are masked.
func TestBase64InLinesIsDecoded(t *testing.T) {
	for _, newline := range []string{"\n", "\r\n"} {
		for _, before := range []string{strings.Repeat("words ", 7), strings.Repeat("words ", 25)} {
			encoded := base64.StdEncoding.EncodeToString([]byte(before + githubPAT + " of the bot"))
			lines := ""
			for len(encoded) > 76 {
				lines, encoded = lines+encoded[:76]+newline, encoded[76:]
			}
			lines += strings.TrimRight(encoded, "=")
			text := "$ base64 file" + newline + lines + newline + "done, and more" + newline
			if got, _ := Default().Text(text); got != strings.Replace(text, lines, "[redacted:github-pat]", 1) {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
	secret := base64.StdEncoding.EncodeToString([]byte("config: token " + githubPAT + " xy"))
	other := strings.Repeat("_/", len(secret)/2) // never in base64
	if got, _ := Default().Text(secret + "\n" + other); got != "[redacted:github-pat]\n"+other {
		t.Errorf("beside a line that is none: %q", got)
	}
}

// Published token formats of vendors are found.
func TestTokensOfVendorsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"password=hunter2":              "password=[redacted:password]",
		"DB_PASSWORD: 's3cret!!'":       "DB_PASSWORD: '[redacted:password]'",
		`{"passwd": "correct-horse-1"}`: `{"passwd": "[redacted:password]"}`,
		"Server=db;Pwd=Tr0ub4dor&3;":    "Server=db;Pwd=[redacted:password]&3;",
		"AccountName=a;AccountKey=" + some(alnum,
			86) + "==;EndpointSuffix=x": "AccountName=a;AccountKey=[redacted:azure-storage-key];EndpointSuffix=x",
		"SharedAccessKeyName=n;SharedAccessKey=" + some(alnum,
			43) + "=": "SharedAccessKeyName=n;SharedAccessKey=[redacted:azure-storage-key]",
		"https://a.blob.core.windows.net/c?sv=1&sig=" + some(alnum,
			43) + "%3D": "https://a.blob.core.windows.net/c?sv=1&sig=[redacted:azure-sas]",
		"sk-ant-" + "oat01-" + some(alnum, 60):                  "[redacted:anthropic-key]",
		"GOCSPX-" + some(alnum, 28):                             "[redacted:google-oauth-secret]",
		"ya29." + some(alnum, 60):                               "[redacted:google-oauth-token]",
		"gsk_" + some(alnum, 52):                                "[redacted:groq-api-key]",
		"xai-" + some(alnum, 80):                                "[redacted:xai-api-key]",
		"r8_" + some(alnum, 37):                                 "[redacted:replicate-api-token]",
		"whsec_" + some(alnum, 32):                              "[redacted:stripe-webhook-secret]",
		"dckr_pat_" + some(alnum, 27):                           "[redacted:docker-hub-token]",
		"sbp_" + some(hexes, 40):                                "[redacted:supabase-token]",
		"tskey-auth-" + some(alnum, 11) + "-" + some(alnum, 32): "[redacted:tailscale-key]",
		"lsv2_pt_" + some(hexes, 32) + "_" + some(hexes, 10):    "[redacted:langsmith-api-key]",
		"https://discord.com/api/webhooks/123456789012345678/" + some(alnum,
			68): "https://discord.com/api/webhooks/123456789012345678/[redacted:discord-webhook]",
		"gh" + "o_" + some(alnum, 36):                                    "[redacted:github-oauth]",
		"gh" + "s_" + some(alnum, 36):                                    "[redacted:github-app-token]",
		"gh" + "r_" + some(alnum, 36):                                    "[redacted:github-refresh-token]",
		"github_" + "pat_" + some(alnum, 82):                             "[redacted:github-fine-grained-pat]",
		"gl" + "pat-" + some(alnum, 20):                                  "[redacted:gitlab-pat]",
		"npm" + "_" + strings.ToLower(some(alnum, 36)):                   "[redacted:npm-access-token]",
		"hf" + "_" + some("abXcdYefZghiJklKmnLop", 34):                   "[redacted:huggingface-access-token]",
		"xoxb" + "-123456789012-1234567890123-" + some(alnum, 24):        "[redacted:slack-bot-token]",
		"sk_" + "live_" + some(alnum, 24):                                "[redacted:stripe-access-token]",
		"SG" + "." + some(alnum, 66):                                     "[redacted:sendgrid-api-token]",
		"dapi" + some(hexes, 32):                                         "[redacted:databricks-api-token]",
		"SK" + some(hexes, 32):                                           "[redacted:twilio-api-key]",
		"pypi-" + "AgEIcHlwaS5vcmc" + some(alnum, 60):                    "[redacted:pypi-upload-token]",
		"AIza" + some(alnum, 35):                                         "[redacted:gcp-api-key]",
		"sk-" + "proj-" + some(alnum, 74) + "T3BlbkFJ" + some(alnum, 74): "[redacted:openai-api-key]",
	} {
		if got, _ := Default().Text(text); got != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
	}
}

// Texts that only resemble secrets stay: masking them would make tools useless.
func TestLookalikesStay(t *testing.T) {
	png := "data:image/png;base64," +
		base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"+some("\x00\xff\x80\x7f\x12",
			200)))
	for _, text := range []string{
		some(hexes, 32), some(hexes, 40), some(hexes, 64), some(hexes, 128), "sha256:" + some(hexes, 64),
		"sha512-" + base64.StdEncoding.EncodeToString([]byte(some("\x91\xa2\xf3\x04", 64))),
		"commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad", "index 3b18e51..7f8e728 100644",
		"550e8400-e29b-41d4-a716-446655440000",
		"01HZX3K8Q2W7V9T5R4N6M1P0AB", "session_id=9f86d081884c7d659a2feaa0c55ad015",
		"1234567890123456789012345678901234567890",
		png, "see " + png + " here", "internal/cli/govern/auditverify/and/so/on/to/the/end/of/it",
		"a-long-name-of-a-branch-with-many-words-in-it",
		base64.StdEncoding.EncodeToString([]byte("what follows is a text without any secret in it")),
		"password: required", "password = getPassword()", "password=os.environ", "passwords: 12",
		"PWD=/home/me/project2", "the password is wrong", "password=${DB_PASSWORD_1}", "password: <your password 1>",
		"password=%s1234567", "enter password: ********", "pwd := filepath.Join2(dir)",
		"https://example.com/?sig=short", "passphrase: config.Secret.Phrase2",
		"SharedAccessKeyName=RootManageSharedAccessKey", "tskey-auth", "sk-ant-", "whsec_", "ya29.", "the r8_ prefix",
		"na\u00efve \u2014 \u201cquoted\u201d \u2026 \u200b zero \ufeff width \u00ad",
	} {
		if got, found := Default().Text(text); found != nil {
			t.Errorf("%q became %q, found %v", text, got, found)
		}
		if got, found, _ := Default().JSON(t.Context(), []byte(`{"x":`+quote(text)+`}`)); found != nil {
			t.Errorf("in JSON %q became %s, found %v", text, got, found)
		}
	}
}

// A known value is masked in every encoding.
func TestKnownValuesInOtherForms(t *testing.T) {
	const secret = `pa$s "w<ö>rd&/+1`
	r := new(Redactor)
	r.SetSecrets([]string{secret})
	for form, text := range map[string]string{
		"plain":        secret,
		"JSON":         quote(secret),
		"JSON in JSON": quote(quote(secret)),
		"query":        "?x=" + url.QueryEscape(secret) + "&y",
		"path":         "/" + url.PathEscape(secret) + "/",
		"markup":       "<b>" + html.EscapeString(secret) + "</b>",
		"hex":          hex.EncodeToString([]byte(secret)),
		"HEX":          strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		if got := r.String(text); !strings.Contains(got, mask) || len(got) > len(text)-len(secret)+len(mask)+4 {
			t.Errorf("%s: %q became %q", form, text, got)
		}
	}
	for _, before := range []string{"", "a", "ab", "user:"} {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := encoding.EncodeToString([]byte(before + secret + "?"))
			got := r.String("Basic " + text)
			if left := strings.ReplaceAll(strings.TrimPrefix(got, "Basic "), mask, ""); len(left) > len(before)*2+6 {
				t.Errorf("base64 after %q: %q became %q", before, text, got)
			}
		}
	}
	if got := r.String("nothing of that"); got != "nothing of that" {
		t.Error(got)
	}
}
