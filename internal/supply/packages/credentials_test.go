package packages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeRC(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNPMCredentials(t *testing.T) {
	global := writeRC(t, "//h.example/:_authToken=global\n//global.example/:_auth=YTpi\n")
	user := writeRC(t, `; a comment
registry = https://h.example/
//h.example/:_authToken = user ; which comes from elsewhere
//h.example:8443/npm/:_authToken="quoted # text"
//variable.example/:_authToken=${TOKEN}
//${NAMED}/:_authToken='${TOKEN}'
//unset.example/:_authToken=${NONE}
//empty.example/:_authToken=${NONE?}
//basic.example/:username=ada
//basic.example/:_password=c2VjcmV0
//nobody.example/:_password=c2VjcmV0
//odd.example/:username=ada
//odd.example/:_password=%
_authToken=for-nobody
//:_authToken=for-nobody
//${NOBODY?}/:_authToken=for-nobody
@scope:registry=https://scope.example/
[section]
//section.example/:_authToken=x
`)
	got, err := npmCredentials([]string{
		"TOKEN=t",
		"NAMED=named.example",
		"NPM_CONFIG_//env.example/:_authToken=${TOKEN}",
		"npm_config_//global.example/:_auth=env",
	}, global, user, filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"//h.example/":          "Bearer user",
		"//h.example:8443/npm/": "Bearer quoted # text",
		"//variable.example/":   "Bearer t",
		"//named.example/":      "Bearer t",
		"//basic.example/":      "Basic YWRhOnNlY3JldA==",
		"//env.example/":        "Bearer t",
		"//global.example/":     "Basic env",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNetrc(t *testing.T) {
	path := writeRC(t, `# a comment
machine other.example login x password y
machine h.example
	login ada
	password secret
macdef init
	machine evil.example login a password b

machine token.example password alone
default login anonymous password guest
`)
	for host, want := range map[string]string{
		"h.example":     "Basic YWRhOnNlY3JldA==",
		"H.example":     "Basic YWRhOnNlY3JldA==",
		"token.example": "Basic OmFsb25l",
		"evil.example":  "",
		"none.example":  "",
		"":              "",
	} {
		if got, err := netrcHeader([]string{"NETRC=" + path}, host); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", host, got, err, want)
		}
	}
	if got, err := netrcHeader([]string{"HOME=" + t.TempDir(), "USERPROFILE=" + t.TempDir()}, "h.example"); got != "" ||
		err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
}
