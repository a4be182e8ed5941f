package version

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
)

// site serves releases over TLS, and answers as a test says.
func site(t *testing.T, answer http.HandlerFunc) *source {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	s, err := newSource(server.URL + "/releases/")
	if err != nil {
		t.Fatal(err)
	}
	s.client.Transport = server.Client().Transport // which knows the certificate
	return s
}

// checksums is the file of a release with these versions for this system.
func checksums(versions ...string) string {
	text := strings.Repeat("1", 64) + "  install.sh\n" +
		strings.Repeat("0", 64) + "  exthost_99.0.0_plan9_amd64.tar.gz\n"
	for _, v := range versions {
		name := strings.NewReplacer("(?:", "", `\.`, ".", "|zip)$", "").Replace(archives().String())
		_, name, _ = strings.Cut(name, "}  ")
		text += strings.Repeat("a", 64) + "  " + strings.Replace(name, "([0-9A-Za-z.+-]+)", v, 1) + "\n"
	}
	return text
}

// TestLatest asks for a release as the project's site has it: behind a redirect, with programs of other systems.
func TestLatest(t *testing.T) {
	s := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/releases/latest/download/checksums.txt":
			http.Redirect(w, r, "/releases/download/v0.9.0-rc.1/checksums.txt", http.StatusFound)
		case "/releases/download/v0.9.0-rc.1/checksums.txt":
			if r.UserAgent() != "exthost" {
				t.Errorf("it says of itself: %q", r.UserAgent())
			}
			fmt.Fprint(w, checksums("0.9.0-rc.1"))
		default:
			http.NotFound(w, r)
		}
	})
	if version, err := s.latest(t.Context()); version != "0.9.0-rc.1" || err != nil {
		t.Errorf("%q, %v", version, err)
	}
}

// TestHostileAnswers has the site, or who speaks in its place, give bad answers. Each is an error with the reason.
func TestHostileAnswers(t *testing.T) {
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	sends := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"plain http":              {sends("http://127.0.0.1:1/checksums.txt"), "not https"},
		"another host":            {sends("https://evil.example/checksums.txt"), `another host: "evil.example"`},
		"the host as a user":      {sends("https://github.com@evil.example/"), `another host: "evil.example"`},
		"another port":            {sends("https://127.0.0.1:1/checksums.txt"), "another host"},
		"GitHub's files":          {sends("https://objects.githubusercontent.com/x"), "another host"},
		"a file":                  {sends("file:///etc/passwd"), "not https"},
		"a redirect in a circle":  {sends("/releases/latest/download/checksums.txt"), "more than 5 times"},
		"a redirect to nowhere":   {status(http.StatusFound), "302"},
		"not found":               {status(http.StatusNotFound), "404 Not Found"},
		"an error of the server":  {status(http.StatusInternalServerError), "500"},
		"no content":              {status(http.StatusNoContent), "204"},
		"empty":                   {says(""), "no program for"},
		"a page":                  {says("<html>sign in to this network</html>"), "no program for"},
		"no program of this kind": {says(checksums()), "no program for"},
		"two versions":            {says(checksums("1.0.0", "2.0.0")), "no single version"},
		"the same twice":          {says(checksums("1.0.0", "1.0.0")), "no single version"},
		"no version":              {says(checksums("1.0") + checksums("x")), "no single version"},
		"dots":                    {says(checksums("1.0..")), "no single version"},
		"a long version":          {says(checksums("1.0.0-" + strings.Repeat("a", 99))), "no single version"},
		"another character":       {says(checksums("1.0.0;reboot", "1.0.0\x1b[2J")), "no program for"},
		"a short hash":            {says(strings.ReplaceAll(checksums("1.0.0"), "aa", "a")), "no program for"},
		"too long":                {says(checksums("9.9.9") + strings.Repeat("\n", maxChecksums)), "more than 128 KiB"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			fmt.Fprint(w, checksums("9.9.9"))
		}, "unexpected EOF"},
		"without end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}, "more than 128 KiB"},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("it asks for compressed data")
			}
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "\x1f\x8b")
		}, "no program for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site(t, tt.answer)
			plain := s.client.Transport.(*http.Transport)
			plain.DisableCompression = true // as newSource has it
			version, err := s.latest(t.Context())
			e, ok := errors.AsType[*console.Error](err)
			if version != "" || !ok || e.Code != console.ExitFailed || e.Hint == "" ||
				!strings.Contains(e.Text, tt.want) || !strings.Contains(e.Text, s.address) {
				t.Errorf("%q, %v, want %q", version, err, tt.want)
			}
		})
	}
	t.Run("without an answer", func(t *testing.T) {
		t.Parallel()
		s := site(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		s.client.Timeout = 100 * time.Millisecond
		if _, err := s.latest(t.Context()); err == nil || console.ExitCode(err) != console.ExitCanceled {
			t.Error(err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		s := site(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		if _, err := s.latest(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("another's certificate", func(t *testing.T) {
		t.Parallel()
		s := site(t, says(checksums("9.9.9")))
		fresh, err := newSource(s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer fresh.client.CloseIdleConnections()
		if version, err := fresh.latest(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%q, %v", version, err)
		}
	})
}

// TestRedirectsOfGitHub checks where the project's own site may send who asks.
func TestRedirectsOfGitHub(t *testing.T) {
	request := func(address string) *http.Request {
		r, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for to, ok := range map[string]bool{
		"https://github.com/exthost/exthost/x":                true,
		"https://release-assets.githubusercontent.com/a?b":    true,
		"http://release-assets.githubusercontent.com/a":       false,
		"https://githubusercontent.com.evil.example/a":        false,
		"https://evilgithubusercontent.com/a":                 false,
		"https://release-assets.githubusercontent.com:8443/a": false,
	} {
		if err := redirect(request(to), []*http.Request{request(releases)}); (err == nil) != ok {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestAddresses checks which addresses releases may have, and that this program has that of install.sh.
func TestAddresses(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "releases=${EXTHOST_RELEASES:-"+releases+"}\n") {
		t.Errorf("install.sh has another address than %s", releases)
	}
	if _, err := newSource(releases); err != nil {
		t.Error(err)
	}
	for _, address := range []string{
		"", "releases", "http://releases.example/x", "https://", "https:///x", "https://a:secret@releases.example/x",
		"https://releases.example/x?y", "https://releases.example/x#y", "file:///x", "https://a b/",
	} {
		_, err := newSource(address)
		if e, ok := errors.AsType[*console.Error](err); !ok || e.Code != console.ExitInvalid ||
			strings.Contains(e.Text, "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestUpgrade checks the command for each way in which exthost is installed.
func TestUpgrade(t *testing.T) {
	const at = "https://r.example/x"
	linux := installed{os: "linux", arch: "amd64", path: "/usr/bin/exthost"}
	with := func(i installed, files ...string) installed {
		i.exists = func(path string) bool {
			for _, f := range files {
				if f == path {
					return true
				}
			}
			return false
		}
		return i
	}
	const fetch = "curl -fsSL https://r.example/x/latest/download/install.sh | "
	const script = fetch + "sh -s -- --dir "
	for _, tt := range []struct {
		i    installed
		want string
	}{
		{with(linux, "/var/lib/dpkg/info/exthost.list", "/var/lib/rpm"),
			"curl -fsSLO https://r.example/x/download/v1.2.3/exthost_1.2.3_linux_amd64.deb && " +
				"sudo apt install ./exthost_1.2.3_linux_amd64.deb"},
		{with(linux, "/lib/apk/db/installed"),
			"wget https://r.example/x/download/v1.2.3/exthost_1.2.3_linux_amd64.apk && " +
				"sudo apk add --allow-untrusted ./exthost_1.2.3_linux_amd64.apk"},
		{with(linux, "/usr/lib/sysimage/rpm"),
			"sudo rpm --upgrade https://r.example/x/download/v1.2.3/exthost_1.2.3_linux_amd64.rpm"},
		{with(linux, "/var/lib/pacman/local"), "upgrade exthost-bin of the AUR, as you have installed it"},
		{with(linux), fetch + "sudo sh -s -- --dir /usr/bin"},
		{installed{os: "linux", path: "/usr/local/bin/exthost", root: true}, script + "/usr/local/bin"},
		{installed{os: "linux", path: "/home/a b/bin/exthost"}, script + "'/home/a b/bin'"},
		{installed{os: "linux", path: "/opt/bin/exthost", slim: true},
			fetch + "sudo sh -s -- --dir /opt/bin --slim"},
		{installed{os: "darwin", module: true, path: "/Users/a/go/bin/exthost"},
			`go install -tags grpcnotrace -ldflags "-s -w" github.com/exthost/exthost/cmd/exthost@v1.2.3`},
		{installed{os: "darwin", path: "/opt/homebrew/Caskroom/exthost/1.0.0/exthost"},
			"brew upgrade --cask exthost/tap/exthost"},
		{installed{os: "windows", path: `C:\Users\a\scoop\apps\exthost\current\exthost.exe`}, "scoop update exthost"},
		{installed{os: "windows", path: `C:\Users\a\AppData\Local\Microsoft\WinGet\Packages\exthost.exthost_x\exthost.exe`},
			"winget upgrade exthost.exthost"},
		{installed{os: "windows", arch: "arm64", path: `D:\exthost.exe`},
			"put the exthost.exe of https://r.example/x/download/v1.2.3/exthost_1.2.3_windows_arm64.zip " +
				"in the place of this one"},
	} {
		if got := tt.i.upgrade(at, "1.2.3"); got != tt.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tt.i, got, tt.want)
		}
	}
}

// TestText checks what is said of a program that is older than, as old as and newer than the latest release.
func TestText(t *testing.T) {
	for want, latest := range map[string]*found{
		"":                            nil,
		"exthost 2.0.0 is newer":      {Version: "2.0.0", Newer: true, Upgrade: "command"},
		"it is the latest release":    {Version: "1.0.0"},
		"it is newer than the latest": {Version: "0.9.0"},
	} {
		r := report{Version: "1.0.0", Latest: latest}
		if got := r.text(); !strings.HasPrefix(got, "exthost ") || !strings.Contains(got, want) ||
			!strings.Contains(got, runtime.Version()) ||
			strings.Contains(got, "command") != (latest != nil && latest.Newer) {
			t.Errorf("%+v: %s", latest, got)
		}
	}
}
