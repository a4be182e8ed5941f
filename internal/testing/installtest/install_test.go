//go:build unix

package installtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// patience bounds each run of the script, and each wait for it.
const patience = time.Minute

// TestMain makes the test binary a program that a release can have: its version is behind the binary.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err == nil && filepath.Base(self) == "exthost" {
		os.Exit(beExthost(self))
	}
	os.Exit(processtest.Sharded(m).Run())
}

const versionMark = "\nversion of the test's program: "

func beExthost(self string) int {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return 1
	}
	version := data[bytes.LastIndex(data, []byte(versionMark))+len(versionMark):]
	fmt.Printf("exthost %s go1.26 test/test\n", version)
	return 0
}

// user is someone who installs: a home, and the programs on PATH.
type user struct {
	*testing.T
	home, bin string
	tmp       string // nothing stays there
	shell     []string
	env       []string
}

// tools are what the script may use beside a program that downloads. They are all that is on PATH.
var tools = []string{
	"sh", "chmod", "cat", "grep", "gzip", "id", "mkdir", "mktemp", "mv", "rm", "rmdir", "sed", "sha256sum", "sleep",
	"tail", "tar", "tr", "uname",
}

func newUser(t *testing.T, s *site, get string) *user {
	t.Helper()
	u := &user{T: t, home: t.TempDir(), bin: t.TempDir(), tmp: t.TempDir(), shell: []string{"sh"}}
	for _, name := range append(tools, get) {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("NOT TESTED: install.sh with %s, which is missing", name)
		}
		if err := os.Symlink(path, filepath.Join(u.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	wgetrc := filepath.Join(t.TempDir(), "wgetrc")
	if err := os.WriteFile(wgetrc, []byte("ca_certificate = "+s.ca+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.env = []string{
		"HOME=" + u.home,
		"TMPDIR=" + u.tmp,
		"PATH=" + u.bin,
		"CURL_CA_BUNDLE=" + s.ca,
		"WGETRC=" + wgetrc,
		"EXTHOST_RELEASES=" + s.URL + "/releases",
	}
	return u
}

// script puts a program of the user's on PATH, in place of the link to one of the system.
func (u *user) script(name, text string) {
	u.Helper()
	path := filepath.Join(u.bin, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		u.Fatal(err)
	}
}

func (u *user) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	u.Cleanup(cancel)
	script, err := filepath.Abs("../../../install.sh")
	if err != nil {
		u.Fatal(err)
	}
	words := slices.Concat(u.shell, []string{script, "--dir", u.dir()}, args)
	path := filepath.Join(u.bin, words[0])
	if filepath.IsAbs(words[0]) {
		path = words[0]
	}
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Env = u.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// dir is where the user has programs. The script makes it.
func (u *user) dir() string { return filepath.Join(u.home, "a b", "bin") }

func (u *user) run(args ...string) (string, error) {
	out, err := u.command(args...).CombinedOutput()
	return string(out), err
}

// install runs the script and returns what it says.
func (u *user) install(args ...string) string {
	u.Helper()
	out, err := u.run(args...)
	if err != nil {
		u.Fatalf("%v: %s", err, out)
	}
	return out
}

// refused runs the script, which must fail with words, and leave the home as it was.
func (u *user) refused(words string, args ...string) {
	u.Helper()
	before := u.files()
	out, err := u.run(args...)
	if err == nil || !strings.Contains(out, words) || !strings.Contains(out, "install.sh: ") {
		u.Errorf("%v, want a failure with %q: %s", err, words, out)
	}
	if diff := cmp.Diff(before, u.files()); diff != "" {
		u.Errorf("the failure changed the home (-before +after):\n%s", diff)
	}
	u.nothingStays()
}

func (u *user) nothingStays() {
	u.Helper()
	if entries, err := os.ReadDir(u.tmp); err != nil || len(entries) > 0 {
		u.Errorf("in the directory of temporary files are %v, %v", entries, err)
	}
}

// files are those of the home, with mode and content.
func (u *user) files() map[string]string {
	u.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(u.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		text := info.Mode().String()
		if err == nil && info.Mode().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			text += " " + string(data)
		}
		all[path] = text
		return err
	})
	if err != nil {
		u.Fatal(err)
	}
	return all
}

// TestInstalls installs, upgrades, goes back and removes, with each program that downloads and in each shell there is.
func TestInstalls(t *testing.T) {
	first, second := newRelease("0.9.0"), newRelease("0.10.0-rc.1")
	s := newSite(t, first)
	s.releases["v"+second.version] = second
	s.answer = func(w http.ResponseWriter, r *http.Request) bool { // as the site's, which keeps files elsewhere
		if to, ok := strings.CutPrefix(r.URL.Path, "/releases/latest/"); ok {
			http.Redirect(w, r, "/releases/"+strings.Replace(to, "download/", "download/v0.9.0/", 1), http.StatusFound)
			return true
		}
		return false
	}
	for _, shell := range []string{"sh", "dash", "bash --posix", "busybox sh", "ksh", "zsh --emulate sh"} {
		for _, get := range []string{"curl", "wget"} {
			t.Run(shell+" "+get, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, s, get)
				u.shell = strings.Fields(shell)
				var err error
				if u.shell[0], err = exec.LookPath(u.shell[0]); err != nil {
					t.Skipf("NOT TESTED: install.sh in %s, which is missing", shell)
				}
				program := filepath.Join(u.dir(), "exthost")
				out := u.install()
				installed := "installed exthost 0.9.0 as " + program + "; checksum verified, signature not verified: "
				path := "not on PATH: export PATH='" + u.dir() + "':\"$PATH\"\n"
				for _, want := range []string{installed, path} {
					if !strings.Contains(out, want) {
						t.Errorf("it does not say %q: %s", want, out)
					}
				}
				info, err := os.Stat(program)
				if err != nil || info.Mode() != 0o755 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
					t.Errorf("%v, %+v", err, info)
				}
				if out := u.install("--version", "v0.10.0-rc.1"); !strings.Contains(out, "it replaces 0.9.0,") {
					t.Error(out)
				}
				u.install("--version", "0.9.0")
				if entries, err := os.ReadDir(u.dir()); err != nil || len(entries) != 1 {
					t.Errorf("%v, %v", entries, err)
				}
				u.install("--uninstall")
				if entries, err := os.ReadDir(u.dir()); err != nil || len(entries) != 0 {
					t.Errorf("%v, %v", entries, err)
				}
				u.refused("there is no "+program, "--uninstall")
				u.unusable(program)
			})
		}
	}
}

// unusable has programs be there that cannot say their version: both an installation and a removal say why.
func (u *user) unusable(program string) {
	u.Helper()
	for _, p := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"", 0o755, ""},
		{"#!/bin/sh\necho no such system >&2; exit 3\n", 0o755, "no such system"},
		{"#!/bin/sh\nexit 3\n", 0o755, "its exit code is 3"},
		{"#!/no/such/interpreter\n", 0o755, ""},
		{"\x7fELF\x02\x01\x01\x00", 0o755, ""},
		{"exthost 0.9.0", 0o644, "ermission denied"}, // as it is in a file system without programs
	} {
		if err := errors.Join(os.RemoveAll(program), os.WriteFile(program, []byte(p.text), p.mode)); err != nil {
			u.Fatal(err)
		}
		for _, args := range [][]string{nil, {"--uninstall"}} {
			u.refused(program+" does not run: ", args...)
			u.refused(p.want, args...)
			u.refused("rm '"+program+"'", args...)
		}
	}
}

// TestProgramWithoutEnd has a program be there that does not end, nor what it has started. The time is over at once.
func TestProgramWithoutEnd(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"sh", "bash", "busybox sh"} {
		u := newUser(t, newSite(t, newRelease("0.9.0")), "curl")
		u.shell = strings.Fields(shell)
		if u.shell[0], err = exec.LookPath(u.shell[0]); err != nil {
			t.Logf("NOT TESTED: a program without end in %s, which is missing", shell)
			continue
		}
		u.script("sleep", "exit")
		u.existing("0.8.0")
		text := "#!/bin/sh\ntrap '' TERM\n" + sleep + " 1000\necho exthost 0.8.0 go1.26 test/test\n"
		if err := os.WriteFile(filepath.Join(u.dir(), "exthost"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{nil, {"--uninstall"}} {
			cmd := u.command(args...)
			out, err := cmd.CombinedOutput()
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the program has started
			if err == nil || !strings.Contains(string(out), "does not run: it did not end within 20 seconds") {
				t.Errorf("%s %v: %v: %s", shell, args, err, out)
			}
			u.nothingStays()
		}
	}
}

// TestInstallsSlim installs the slim program of the latest release, and then the whole one in its place.
func TestInstallsSlim(t *testing.T) {
	t.Parallel()
	r := newRelease("0.9.0")
	u := newUser(t, newSite(t, r), "curl")
	u.refused("has no program for", "--slim")
	text := "#!/bin/sh\necho exthost 0.9.0 go1.26 test/test slim\n"
	r.put(strings.Replace(r.archive(), "exthost_", "exthost-slim_", 1),
		packed(tar.Header{Name: "exthost", Mode: 0o755}, []byte(text)))
	for _, args := range [][]string{{"--slim"}, nil} {
		u.install(args...)
		got, err := os.ReadFile(filepath.Join(u.dir(), "exthost"))
		if err != nil || (string(got) == text) != (args != nil) {
			t.Errorf("%v: %v, %s", args, err, got)
		}
	}
}

// TestRefusesReleases has each release be wrong in one way.
func TestRefusesReleases(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(r *release)
		want  string
	}{
		"another hash": {func(r *release) { r.files[r.archive()] = append(r.files[r.archive()], 0) },
			"the release states"},
		"cut in the middle": {func(r *release) { r.files[r.archive()] = r.files[r.archive()][:100] },
			"the release states"},
		"empty":        {func(r *release) { r.files[r.archive()] = []byte{} }, "the release states"},
		"no such file": {func(r *release) { delete(r.files, r.archive()) }, "there is no https://"},
		"no checksum for this system": {func(r *release) {
			r.files["checksums.txt"] = []byte(strings.Repeat("0", 64) + "  exthost_0.9.0_plan9_amd64.tar.gz\n")
		}, "the latest release has no program for"},
		"two checksums for this system": {func(r *release) {
			sums := r.files["checksums.txt"]
			r.files["checksums.txt"] = append(sums, bytes.Replace(sums, []byte("0"), []byte("1"), 1)...)
		}, "no program for"},
		"a page in place of checksums": {func(r *release) { r.files["checksums.txt"] = []byte("<html>Log in</html>") },
			"no program for"},
		"checksums without end": {func(r *release) { r.files["checksums.txt"] = make([]byte, 4<<20) },
			"within its bounds"},
		"no archive": {func(r *release) { r.put(r.archive(), []byte("no archive")) }, "not in gzip format"},
		"no program in it": {func(r *release) { r.pack(tar.Header{Name: "README.md", Mode: 0o644}, nil) },
			"could not be unpacked"},
		"a link": {func(r *release) {
			r.pack(tar.Header{Name: "exthost", Typeflag: tar.TypeSymlink, Linkname: "/bin/true"}, nil)
		}, "has no program exthost"},
		"a directory": {func(r *release) {
			r.pack(tar.Header{Name: "exthost", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
		}, "has no program exthost"},
		"a link to the program": {func(r *release) {
			r.pack(tar.Header{Name: "exthost", Typeflag: tar.TypeLink, Linkname: "LICENSE"}, nil)
		}, ""},
		"a program that fails": {func(r *release) {
			r.pack(tar.Header{Name: "exthost", Mode: 0o755}, []byte("#!/bin/sh\necho no such system; exit 1\n"))
		}, "does not run in"},
		"a program of another version": {func(r *release) {
			r.pack(tar.Header{Name: "exthost", Mode: 0o755}, []byte("#!/bin/sh\necho exthost 0.8.9 go1.26 test/test\n"))
		}, "says that it is exthost 0.8.9"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelease("0.9.0")
			tt.spoil(r)
			u := newUser(t, newSite(t, r), "curl")
			u.refused(tt.want)
			u.existing("0.8.0")
			u.refused(tt.want)
		})
	}
	r := newRelease("0.9.0")
	r.files["checksums.txt"] = make([]byte, 4<<20)
	newUser(t, newSite(t, r), "wget").refused("within its bounds")
}

// existing puts an older program where the script installs.
func (u *user) existing(version string) {
	u.Helper()
	text := "#!/bin/sh\necho exthost " + version + " go1.26 test/test\n"
	if err := errors.Join(os.MkdirAll(u.dir(), 0o755),
		os.WriteFile(filepath.Join(u.dir(), "exthost"), []byte(text), 0o755)); err != nil {
		u.Fatal(err)
	}
}

// TestRefusesServers has the server, or someone between, lead elsewhere or end early.
func TestRefusesServers(t *testing.T) {
	t.Parallel()
	release := newRelease("0.9.0")
	for name, tt := range map[string]struct {
		answer func(elsewhere, plain *httptest.Server) http.HandlerFunc
		want   string
	}{
		"to plain http": {func(_, plain *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusFound)
			}
		}, "is not https"},
		"to another host": {func(elsewhere, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusMovedPermanently)
			}
		}, "redirects to another host"},
		"to another host, disguised": {func(elsewhere, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", strings.Replace(elsewhere.URL, "//", "//github.com@", 1)+r.URL.Path)
				w.WriteHeader(http.StatusFound)
			}
		}, "has no plain host"},
		"in circles": {func(_, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusSeeOther) }
		}, "redirects more than"},
		"to nowhere": {func(_, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }
		}, "is not https"},
		"an error": {func(_, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		}, "the server answered 503"},
		"the end of the connection": {func(_, _ *httptest.Server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write([]byte("a part"))
				panic(http.ErrAbortHandler)
			}
		}, "not whole"},
	} {
		for _, get := range []string{"curl", "wget"} {
			for _, file := range []string{"checksums.txt", release.archive()} {
				if get == "wget" && file == "checksums.txt" {
					continue // which is fetched as the archive is
				}
				t.Run(name+" "+get+" "+filepath.Ext(file), func(t *testing.T) {
					t.Parallel()
					asked := make(chan string, 10)
					record := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
					elsewhere, plain := httptest.NewTLSServer(record), httptest.NewServer(record)
					t.Cleanup(elsewhere.Close)
					t.Cleanup(plain.Close)
					s := newSite(t, release)
					answer := tt.answer(elsewhere, plain)
					s.answer = func(w http.ResponseWriter, r *http.Request) bool {
						if strings.HasSuffix(r.URL.Path, "/"+file) {
							answer(w, r)
							return true
						}
						return false
					}
					u := newUser(t, s, get)
					u.existing("0.8.0")
					u.refused(tt.want)
					select {
					case path := <-asked:
						t.Errorf("it asked elsewhere for %s", path)
					default:
					}
				})
			}
		}
	}
}

// TestRefusesUnknownCertificates has the server show a certificate that nobody vouches for, and then have no TLS.
func TestRefusesUnknownCertificates(t *testing.T) {
	t.Parallel()
	for _, get := range []string{"curl", "wget"} {
		s := newSite(t, newRelease("0.9.0"))
		u := newUser(t, s, get)
		u.env = slices.DeleteFunc(u.env, func(v string) bool {
			return strings.HasPrefix(v, "CURL_CA_BUNDLE=") || strings.HasPrefix(v, "WGETRC=")
		})
		u.refused("could not be fetched")
		u.env = append(u.env, "EXTHOST_RELEASES=http"+strings.TrimPrefix(s.URL, "https"))
		u.refused("is not https")
		if asked := s.requests(); len(asked) > 0 {
			t.Errorf("%s: it asked for %v", get, asked)
		}
	}
}

// TestLeavesWhatItDidNotMake has something else be where the program goes.
func TestLeavesWhatItDidNotMake(t *testing.T) {
	t.Parallel()
	s := newSite(t, newRelease("0.9.0"))
	for name, tt := range map[string]struct {
		make func(path string) error
		want string
	}{
		"another program": {func(path string) error {
			return os.WriteFile(path, []byte("#!/bin/sh\necho something else\n"), 0o755)
		}, "is there and is not exthost"},
		"a file":      {func(path string) error { return os.WriteFile(path, []byte("notes"), 0o600) }, "does not run"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o755) }, "is there and is not exthost"},
		"a link":      {func(path string) error { return os.Symlink("/bin/true", path) }, "is a link"},
		"a lost link": {func(path string) error { return os.Symlink("/no/such/file", path) }, "is a link"},
		"a file in place of the directory": {func(path string) error {
			return errors.Join(os.Remove(filepath.Dir(path)), os.WriteFile(filepath.Dir(path), nil, 0o600))
		}, "cannot be made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, s, "curl")
			if err := errors.Join(os.MkdirAll(u.dir(), 0o755), tt.make(filepath.Join(u.dir(), "exthost"))); err != nil {
				t.Fatal(err)
			}
			u.refused(tt.want)
			if !strings.HasPrefix(name, "a file in") {
				u.refused(tt.want, "--uninstall")
			}
		})
	}
}

func TestRefusesArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t, newRelease("0.9.0"))
	u := newUser(t, s, "curl")
	u.refused("is no version", "--version", "../../evil")
	u.refused("is no version", "--version", "1.0/..")
	u.refused("there is no https://", "--version", "7.7.7")
	u.refused("needs a value", "--version")
	u.refused("there is no option --force", "--force")
	u.refused("is no version", "--version", "--dir", u.dir())
	u.refused("is no version", "--version", "v")
	key := "RW" + strings.Repeat("Q", 54)
	u.refused("--key needs minisign", "--key", key)
	asked := len(s.requests())
	u.script("minisign", "exit 1")
	for _, wrong := range []string{"nofile.pub", "RWQ", key + "Q", strings.Repeat("Q", 56)} {
		u.refused("--key "+wrong+" is no file, and no key", "--key", wrong)
	}
	if len(s.requests()) > asked {
		t.Errorf("it asked for %v", s.requests()[asked:])
	}
	env := u.env
	u.env = append(slices.Clone(env), "EXTHOST_RELEASES=https://me:secret@releases.example/x")
	out, err := u.run()
	if err == nil || strings.Contains(out, "secret") ||
		!strings.Contains(out, "https://releases.example/x has no plain host") {
		t.Errorf("%v: %s", err, out)
	}
	u.env = env
	out, err = u.run("--help")
	if err != nil || !strings.HasPrefix(out, "Usage: install.sh") {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Remove(filepath.Join(u.bin, "curl")); err != nil {
		t.Fatal(err)
	}
	u.refused("curl is missing, and so is GNU Wget")
	u.script("wget", "echo BusyBox >&2; exit 1")
	u.refused("curl is missing, and so is GNU Wget")
}

// TestOddDirectories installs in directories whose names other programs escape, and says how to name one on PATH.
func TestOddDirectories(t *testing.T) {
	t.Parallel()
	u := newUser(t, newSite(t, newRelease("0.9.0")), "curl")
	for _, name := range []string{"a\\nb", "a\nb", "it's $HOME \"`id`\""} {
		dir := filepath.Join(u.home, name)
		out := u.install("--dir", dir)
		if !strings.Contains(out, "installed exthost 0.9.0 as "+dir+"/exthost;") {
			t.Error(out)
		}
		_, command, _ := strings.Cut(out, "not on PATH: ")
		command, _, _ = strings.Cut(command, "\n  next:")
		command = "PATH=rest\n" + command + "\nprintf %s \"$PATH\""
		path, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).Output()
		if err != nil || string(path) != dir+":rest" {
			t.Errorf("%s: %v: %s", command, err, path)
		}
		u.install("--dir", dir, "--uninstall")
	}
}

// TestSettingsOfTheUser has curl find settings that would change what it does, and wget keep no notes of its own.
func TestSettingsOfTheUser(t *testing.T) {
	t.Parallel()
	s := newSite(t, newRelease("0.9.0"))
	u := newUser(t, s, "curl")
	rc := "fail\ninclude\ninsecure\n"
	if err := os.WriteFile(filepath.Join(u.home, ".curlrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	u.install()
	u.refused("there is no https://", "--version", "7.7.7")
	u.env = slices.DeleteFunc(u.env, func(v string) bool { return strings.HasPrefix(v, "CURL_CA_BUNDLE=") })
	u.refused("could not be fetched")

	u = newUser(t, s, "wget")
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Fatal(err)
	}
	u.script("wget", `case "$*" in *https:*) echo "$*" >>"$HOME/asked" ;; esac
exec `+wget+` "$@"`)
	u.install()
	asked, err := os.ReadFile(filepath.Join(u.home, "asked"))
	if lines := strings.Count(string(asked), "\n"); err != nil || lines != 3 ||
		strings.Count(string(asked), "--no-hsts") != lines {
		t.Errorf("%v: %s", err, asked)
	}
}

// TestNoNetwork has nobody listen where the releases are.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	s := newSite(t, newRelease("0.9.0"))
	s.Close()
	for _, get := range []string{"curl", "wget"} {
		u := newUser(t, s, get)
		u.refused("next: look at the network")
		u.env = append(u.env, "EXTHOST_RELEASES=https://no-such-host.invalid/releases")
		u.refused("next: look at the network")
	}
}

// TestAPartOfTheScriptDoesNothing cuts the script at each line, as a download that ends early does.
func TestAPartOfTheScriptDoesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, newRelease("0.9.0"))
	u := newUser(t, s, "curl")
	text, err := os.ReadFile("../../../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for n := range lines[:len(lines)-2] {
		cmd := exec.CommandContext(t.Context(), filepath.Join(u.bin, "sh"))
		cmd.Env, cmd.Dir, cmd.Stdin = u.env, u.home, strings.NewReader(strings.Join(lines[:n], ""))
		_ = cmd.Run() // a part may be no shell program
	}
	if len(s.requests()) > 0 || len(u.files()) != 1 {
		t.Errorf("a part of the script asked for %v and wrote %v", s.requests(), u.files())
	}
}

// TestFullDisk has the directory be full before the archive is whole, and before the program is.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	program := append([]byte("#!/bin/sh\necho exthost 0.9.0 go1.26 test/test; exit\n"), make([]byte, 4<<20)...)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("NOT TESTED: install.sh on a full disk: unshare is missing")
	}
	for _, get := range []string{"curl", "wget"} {
		u := newUser(t, newSite(t, releaseOf("0.9.0", program)), get)
		for _, size := range []string{"16k", "128k"} { // the archive has some 20 KiB
			cmd := u.command()
			mount := fmt.Sprintf("PATH=%s mount -t tmpfs -o size=%s none %s || exit 77\n\"$@\" || code=$?\n"+
				"echo left: $(/bin/ls -A %[3]s).\nexit $code", os.Getenv("PATH"), size, u.home)
			cmd.Args = slices.Concat([]string{unshare, "-rm", "/bin/sh", "-c", mount, "-", cmd.Path}, cmd.Args[1:])
			cmd.Path = unshare
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 77 ||
				bytes.Contains(out, []byte("unshare failed")) {
				t.Skipf("NOT TESTED: install.sh on a full disk: no file system can be mounted: %s", out)
			}
			if err == nil || !bytes.Contains(out, []byte("has space")) ||
				!bytes.HasSuffix(out, []byte("left: .\n")) {
				t.Errorf("%s with %s: %v: %s", get, size, err, out)
			}
		}
	}
}

// TestInterrupted ends the script while it waits for the rest of the archive, with what it runs and alone.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	// A shell cannot handle a signal that it was started without, as nohup starts what it runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	for _, sent := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
	} {
		for shell, get := range map[string]string{"sh": "curl", "bash": "wget", "busybox": "curl"} {
			t.Run(sent.String()+" "+shell+" "+get, func(t *testing.T) {
				t.Parallel()
				interrupted(t, shell, get, func(shell int) error { return syscall.Kill(-shell, sent) })
			})
			t.Run(sent.String()+" "+shell+" "+get+" alone", func(t *testing.T) {
				t.Parallel()
				interrupted(t, shell, get, func(shell int) error { return syscall.Kill(shell, sent) })
			})
		}
	}
}

func interrupted(t *testing.T, shell, get string, kill func(shell int) error) {
	t.Helper()
	half, end := make(chan struct{}), make(chan struct{})
	s := newSite(t, newRelease("0.9.0"))
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".tar.gz") {
			return false
		}
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 50000))
		w.(http.Flusher).Flush()
		close(half)
		<-end
		return true
	}
	t.Cleanup(func() { close(end) })
	u := newUser(t, s, get)
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("NOT TESTED: a signal to %s, which is missing", shell)
	}
	if u.shell = []string{path}; shell == "busybox" {
		u.shell = []string{path, "sh"}
	}
	u.existing("0.8.0")
	before := u.files()
	cmd := u.command()
	cmd.Dir = u.tmp // where wget writes a log when it is hung up
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-half:
	case <-time.After(patience):
		t.Error("the archive is not asked for")
	}
	if err := kill(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	const want = "install.sh: interrupted; nothing is changed\n"
	if err := cmd.Wait(); err == nil || out.String() != want {
		t.Errorf("%v, want an error and %q: %s", err, want, out.Bytes())
	}
	if diff := cmp.Diff(before, u.files()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	u.nothingStays()
}

// TestReplacesARunningProgram upgrades a program that runs, while others start it: there is one at any time.
func TestReplacesARunningProgram(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	of := func(version string) *release {
		return releaseOf(version, slices.Concat(binary, []byte(versionMark+version)))
	}
	first, second := of("0.9.0"), of("0.10.0")
	s := newSite(t, first)
	s.releases["v0.10.0"] = second
	u := newUser(t, s, "curl")
	u.install()
	program := filepath.Join(u.dir(), "exthost")
	running := exec.CommandContext(t.Context(), program, "serve")
	stdin, err := running.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	done, versions := make(chan struct{}), make(chan map[string]int)
	go func() {
		seen := make(map[string]int)
		for last := false; !last; {
			select {
			case <-done:
				last = true
			default:
			}
			out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
			if err != nil {
				out = fmt.Append(out, err)
			}
			seen[strings.TrimSpace(string(out))]++
		}
		versions <- seen
	}()
	u.install("--version", "0.10.0")
	close(done)
	seen := <-versions
	if seen["exthost 0.10.0 go1.26 test/test"] == 0 || len(seen) > 2 {
		t.Errorf("who started the program meanwhile saw %v", seen)
	}
	if len(seen) == 2 && seen["exthost 0.9.0 go1.26 test/test"] == 0 {
		t.Errorf("who started the program meanwhile saw %v", seen)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := running.Wait(); err != nil {
		t.Errorf("the program that ran meanwhile: %v", err)
	}
}

// TestSignatures verifies with cosign where it is there, and with minisign where a key is given.
func TestSignatures(t *testing.T) {
	t.Parallel()
	r := newRelease("0.9.0")
	s := newSite(t, r)
	u := newUser(t, s, "curl")
	u.script("cosign", `echo "$@" >"$HOME/cosign"
case $(cat "$3"):$* in
good:* | new:*--new-bundle-format*) exit ;;
old:*--new-bundle-format*) echo "Error: unknown flag: --new-bundle-format" >&2; exit 1 ;;
new:*) echo "Error: bundle does not contain cert for verification" >&2 ;;
bad:*) printf '%s\n' "WARNING: noise" "Error: no matching CertificateIdentity found, last error: x" >&2 ;;
*) echo "Error: getting TUF metadata: no such host" >&2 ;;
esac
exit 1`)
	u.refused("there is no " + s.URL + "/releases/download/v0.9.0/checksums.txt.sigstore.json")
	for bundle, want := range map[string]string{
		"bad": "not signed by their release: Error: no matching CertificateIdentity found",
		"any": "cosign could not verify the checksums of 0.9.0: Error: getting TUF metadata",
		"old": "cosign could not verify the checksums of 0.9.0: Error: getting TUF metadata",
	} {
		r.files["checksums.txt.sigstore.json"] = []byte(bundle)
		out, err := u.run()
		if err == nil || !strings.Contains(out, want) || strings.Contains(out, "report it") != (bundle == "bad") {
			t.Errorf("%s: %v: %s", bundle, err, out)
		}
	}
	r.files["checksums.txt.sigstore.json"] = []byte("new")
	u.install()
	r.files["checksums.txt.sigstore.json"] = []byte("good")
	if out := u.install(); !strings.Contains(out, "checksum and signature (cosign) verified") {
		t.Error(out)
	}
	args, err := os.ReadFile(filepath.Join(u.home, "cosign"))
	if err != nil || !strings.Contains(string(args), "/.github/workflows/release.yaml@refs/tags/v0.9.0 ") {
		t.Errorf("cosign was asked %s, %v", args, err)
	}
}

func TestMinisign(t *testing.T) {
	t.Parallel()
	minisign, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("NOT TESTED: install.sh --key: minisign is missing")
	}
	r := newRelease("0.9.0")
	u := newUser(t, newSite(t, r), "curl")
	if err := os.Symlink(minisign, filepath.Join(u.bin, "minisign")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sign := func(comment string, data []byte) []byte {
		t.Helper()
		file := filepath.Join(dir, "checksums.txt")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(minisign, "-S", "-s", filepath.Join(dir, "key"), "-t", comment, "-m",
			file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(file + ".minisig")
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	public := filepath.Join(dir, "key.pub")
	if out, err := exec.Command(minisign, "-G", "-W", "-s", filepath.Join(dir, "key"), "-p",
		public).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u.refused("there is no https://", "--key", public) // a release without a signature
	r.files["checksums.txt.minisig"] = sign("exthost 0.9.0", r.files["checksums.txt"])
	if out := u.install("--key", public); !strings.Contains(out, "checksum and signature (minisign) verified") {
		t.Error(out)
	}
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	u.install("--key", strings.Split(string(text), "\n")[1])
	r.files["checksums.txt.minisig"] = sign("exthost 0.9.0", []byte("of another release"))
	u.refused("not signed by the key", "--key", public)
	r.files["checksums.txt.minisig"] = sign("exthost 0.8.0", r.files["checksums.txt"])
	u.refused("the signature is that of exthost 0.8.0", "--key", public)
}

// TestShellcheck has shellcheck read the script.
func TestShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("NOT TESTED: the style of install.sh: shellcheck is missing")
	}
	out, err := exec.Command("shellcheck", "--shell=sh", "../../../install.sh").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
