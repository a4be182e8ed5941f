package refusal

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What programs print when a sandbox refuses something is recognized, as one line.
func TestFind(t *testing.T) {
	for _, line := range []string{
		"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /opt/x.js",
		"Error: EACCES: permission denied, open '/etc/x'",
		"fatal: unable to access '/etc/gitconfig': Permission denied",
		"ModuleNotFoundError: No module named 'mcp'",
		"FileNotFoundError: [Errno 2] No usable temporary directory found",
		"TypeError: fetch failed { cause: getaddrinfo EAI_AGAIN api.example }",
		"Failed to fetch robots.txt due to a connection issue",
		"MY_EACCES or EACCESS, and then EACCES",
	} {
		if got := Find("starting\n" + line + "\n    at node:internal\nEPERM"); got != line {
			t.Errorf("%q: %q", line, got)
		}
	}
	for _, text := range []string{
		"API_KEY is required",
		"hypermedia and experiments",
		"PREFETCH FAILED with EPERMIT and MY_EPERM",
		"No such file or directory: 'a'",
		"",
		strings.Repeat("x", maxText) + " EACCES",
	} {
		if got := Find(text); got != "" {
			t.Errorf("%.80q: %q", text, got)
		}
	}
	long := strings.Repeat("é", 5000)
	if line := Find(long + "EACCES" + long); line == "" || len(line) > maxLine {
		t.Errorf("%d bytes are kept", len(line))
	}
}

// The log has a refusal at once and then once a minute; the latest is kept.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&text, nil)), "/srv/x", false)
		l.Hear("all is well")
		for _, line := range []string{"EACCES a", "EACCES b", "EACCES c"} {
			l.Hear(line)
		}
		time.Sleep(again)
		l.Hear("EACCES d")
		l.Hear("all is well")
		if l.Last() != "EACCES d" || strings.Count(text.String(), "may have refused") != 2 ||
			!strings.Contains(text.String(), "exthost check --sandbox /srv/x") {
			t.Errorf("%q\n%s", l.Last(), text.String())
		}
	})
}

// A program that looks names up itself, where its sandbox has a proxy, is told so.
func TestNext(t *testing.T) {
	for _, tt := range []struct {
		line       string
		has, names bool
	}{
		{"TypeError: fetch failed", true, true},
		{"EAI_AGAIN", true, true},
		{"EACCES", true, false},
		{"EAI_AGAIN", false, false},
	} {
		if got := Next("x", tt.has, Find(tt.line)); strings.Contains(got, "HTTPS_PROXY") != tt.names {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
