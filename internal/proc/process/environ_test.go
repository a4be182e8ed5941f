package process

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// hostEnv has variables of every kind.
var hostEnv = []string{
	"PATH=/usr/bin:/bin", "HOME=/home/ann", "USER=ann", "PWD=/home/ann", "OLDPWD=/", "LANG=C.UTF-8", "LC_ALL=C",
	"TZ=UTC",
	"TERM=xterm", "XDG_RUNTIME_DIR=/run/user/1", "EDITOR=vi", "EMPTY=", "EQUALS=a=b", "DUP=first", "DUP=last",
	"UMLAUT=ü",
	"no-equals-sign", "=nameless", "",
	// Secrets by name.
	"GITHUB_TOKEN=canary", "token=canary", "Key=canary", "AWS_SECRET_ACCESS_KEY=canary", "MY_PASSWD=canary",
	"DB_PWD=canary",
	"MYSQL_PASSWORD_FILE=canary", "VAULT_CREDENTIALS=canary", "GITLAB_PAT=canary", "NPM_AUTH=canary", "X_APIKEY=canary",
	"STRIPE_SK=canary", "JWT=canary", "API_KEY_PROD=canary", "ACCESS_TOKEN_2=canary", "AWS_ACCESS_KEY_ID=canary",
	"DOCKER_AUTH_CONFIG=canary",
	"AUTHORIZATION=canary", "COOKIE=canary", "PASSPHRASE=canary", "MNEMONIC=canary", "SMTP_PASS=canary",
	"SLACK_WEBHOOK=canary",
	"X_BEARER=canary", "DESKTOP_SESSION=canary", "PRIVATE_KEY_PEM=canary", "XDG_SECRET_DIR=canary", "auth=canary",
	"PAT=canary",
	// Similar names that are not secrets.
	"MAX_TOKENS=4096", "XDG_SESSION_TYPE=tty", "PASSENGERS=2", "COMPASS=n", "GIT_AUTHOR_EMAIL=ann@example.com",
	"TOKENIZERS_PARALLELISM=1", "KEYBOARD=us", "PATH_INFO=/", "MONKEY=1", "AUTHOR=ann", "SESSIONS=3",
	// Secrets by value.
	"DATABASE_URL=postgres://ann:canary@db/x", "REDIS_URL=redis://:canary@cache:6379",
	"MESSY_URL=amqp://ann:can/ary@mq",
	"JDBC=jdbc:postgresql://ann:canary@db/x", "FLAGS=--a http://b --c https://ann:canary@d",
	"HTTPS_PROXY=http://ann:canary@proxy:3128",
	"PLAIN_URL=https://example.com:8080/a@b", "USER_URL=https://ann@example.com/", "V6_URL=http://[::1]:80/a@b",
	"no_proxy=localhost",
	"OPENAI=sk-" + "abcdEFGH0123ijkl4567" + "T3BlbkFJ" + "canaryGH0123ijkl4567",
	"CI_JOB=ghp_0123456789" + "abcdefghijABCDEFGHIJ012345",
	"NOTIFY=https://hooks.slack.com/services/T00000000/B00000000/" + "canary0123456789canary01",
	// Gives access to the user's secrets.
	"SSH_AUTH_SOCK=/tmp/canary", "KUBECONFIG=/home/ann/canary", "DBUS_SESSION_BUS_ADDRESS=unix:path=/canary",
	// Code injection.
	"LD_PRELOAD=canary", "LD_LIBRARY_PATH=canary", "DYLD_INSERT_LIBRARIES=canary", "BASH_ENV=canary",
	"NODE_OPTIONS=canary",
	"PYTHONSTARTUP=canary", "GIT_SSH_COMMAND=canary", "BASH_FUNC_ls%%=canary",
}

func TestEnvironmentFilter(t *testing.T) {
	set := map[string]string{
		"EXTHOST_EXTENSION_ID": "weather",
		"DUP":                  "set",
		"NODE_OPTIONS":         "--max-old-space-size=64",
		"X_APIKEY":             "own",
	}
	cases := []struct {
		name string
		p    EnvPolicy
	}{
		{"filter", EnvPolicy{}},
		{"filter, declared, denied, set", EnvPolicy{
			Pass:     []string{"DATABASE_URL"},
			Declared: []string{"GITHUB_TOKEN", "DB_PWD", "EDITOR", "LD_PRELOAD", "NOT_SET"},
			Deny:     []string{"DB_PWD", "EDITOR", "DUP"},
			Set:      set,
		}},
		{"allowlist", EnvPolicy{Mode: "allowlist"}},
		{"allowlist, passed, declared", EnvPolicy{
			Mode:     "allowlist",
			Pass:     []string{"EDITOR", "HTTPS_PROXY"},
			Declared: []string{"GITHUB_TOKEN", "BASH_ENV"},
			Set:      map[string]string{"EXTHOST_VERSION": "1"},
		}},
	}
	var b strings.Builder
	for _, tt := range cases {
		env, report := Environ(hostEnv, tt.p)
		fmt.Fprintf(&b, "== %s\n\n%s\n\nwithheld: %s\n\npassed secrets: %s\n\n", tt.name, strings.Join(env, "\n"),
			strings.Join(report.Withheld, " "), strings.Join(report.PassedSecrets, " "))
		if text := fmt.Sprint(report); strings.Contains(text, "canary") || strings.Contains(text, "last") {
			t.Errorf("%s: the report holds a value: %s", tt.name, text)
		}
	}
	const golden = "testdata/environ.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("run with -update if this is meant (-want +got):\n%s", diff)
	}
}

// The child gets exactly the result of Environ.
func TestChildEnvironment(t *testing.T) {
	processtest.Leaks(t)
	set := make(map[string]string)
	for _, kv := range processtest.Env("env") {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	env, _ := Environ(hostEnv, EnvPolicy{Set: set})
	got := start(t, "", func(s *Spec) { s.Env = env }).rest()
	if diff := cmp.Diff(strings.Join(env, "\n")+"\n", got); diff != "" {
		t.Errorf("environment of the child (-want +got):\n%s", diff)
	}
	if strings.Contains(got, "canary") {
		t.Error("a secret reached the child")
	}
}

func TestExpand(t *testing.T) {
	lookup := Lookup([]string{"A=1", "EMPTY=", "NESTED=${A}", "LONG=a b"})
	for s, want := range map[string]string{
		"":                         "",
		"plain $A {A} $ 5$":        "plain $A {A} $ 5$",
		"${A}":                     "1",
		"x${A}y${A}z":              "x1y1z",
		"${EMPTY}|":                "|",
		"${EMPTY:-d}":              "d",
		"${NO:-d}":                 "d",
		"${NO:-}":                  "",
		"${NO:-a:-b $c {d}":        "a:-b $c {d",
		"${A:-d}":                  "1",
		"${NESTED}":                "${A}",
		"${LONG}":                  "a b",
		"http://${H:-localhost}/x": "http://localhost/x",
	} {
		if got, err := Expand(s, lookup); err != nil || got != want {
			t.Errorf("Expand(%q) = %q, %v; want %q", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"${NO} ${A} ${NEITHER}": "NO, NEITHER",
		"${A":                   "malformed reference",
		"${}":                   "malformed reference",
		"${1A}":                 "malformed reference",
		"${A-b}":                "malformed reference",
		"${A:?x}":               "malformed reference",
	} {
		if got, err := Expand(s, lookup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Expand(%q) = %q, %v; want an error with %q", s, got, err, want)
		}
	}
}

func TestLookupLastOneCounts(t *testing.T) {
	lookup := Lookup([]string{"A=1", "A=2"})
	if got, ok := lookup("A"); got != "2" || !ok {
		t.Errorf("A: %q, %t", got, ok)
	}
	if _, ok := lookup("B"); ok {
		t.Error("B is found")
	}
}

func TestEnvironIsSorted(t *testing.T) {
	env, report := Environ(hostEnv, EnvPolicy{Set: map[string]string{"0": "", "z": ""}})
	if !slices.IsSorted(env) || !slices.IsSorted(report.Withheld) {
		t.Errorf("not sorted: %q, %q", env, report.Withheld)
	}
}
