//go:build unix

package installtest

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDownloadsFromGitHub has curl be a program that answers as github.com does: files are at another host.
func TestDownloadsFromGitHub(t *testing.T) {
	t.Parallel()
	r := newRelease("0.9.0")
	u := newUser(t, newSite(t, r), "curl")
	dir := t.TempDir()
	for name, data := range r.files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.env = append(u.env, "EXTHOST_RELEASES=", "FILES="+dir, "AT=release-assets.githubusercontent.com")
	u.script("curl", `while [ $# -gt 1 ]; do
	[ "$1" != --output ] || file=$2
	shift
done
name=${1##*/}
case $1 in
https://github.com/exthost/exthost/releases/*download/*) printf '302 %s' "https://$AT/$name" ;;
"https://$AT/$name") cat "$FILES/$name" >"$file" && printf '200 ' ;;
esac
`)
	if out := u.install(); !strings.Contains(out, "installed exthost 0.9.0") {
		t.Error(out)
	}
	for _, host := range []string{"githubusercontent.com", "a-githubusercontent.com", "a.githubusercontent.com.b"} {
		u.env = append(u.env, "AT="+host)
		u.refused("github.com redirects to another host: https://" + host)
	}
}

// TestPlaces installs where nothing says where, and where a relative path says it.
func TestPlaces(t *testing.T) {
	t.Parallel()
	r := newRelease("0.9.0")
	u := newUser(t, newSite(t, r), "curl")
	u.script("id", "echo 1000")
	usual := filepath.Join(u.home, ".local", "bin")
	install := func(want string, args ...string) {
		t.Helper()
		cmd := u.command()
		cmd.Args, cmd.Dir = append(cmd.Args[:2], args...), u.home
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, want %q: %s", err, want, out)
		}
	}
	install("installed exthost 0.9.0 as " + usual + "/exthost;")
	install("installed exthost 0.9.0 as "+u.home+"/other/exthost;", "--dir", "other//")
	noisy := "#!/bin/sh\necho a warning >&2\necho exthost 0.9.0 go1.26 test/test\n"
	r.pack(tar.Header{Name: "exthost", Mode: 0o755}, []byte(noisy))
	install("installed exthost 0.9.0 as "+u.home+"/other/exthost;", "--dir", "other")
	u.env = append(u.env, "PATH="+u.bin+":"+usual+":"+u.home+"/other")
	install(usual+"/exthost comes before it on PATH", "--dir", "other")
	if _, err := os.Stat("/proc/self"); err == nil {
		u.refused("nothing can be written in /proc", "--dir", "/proc")
	}
	gone := filepath.Join(u.home, "gone")
	cmd := u.command()
	cmd.Path, cmd.Dir = filepath.Join(u.bin, "sh"), u.home
	cmd.Args = []string{"sh", "-c", `mkdir gone && cd gone && rmdir ../gone && exec "$@" --dir bin`, "-", cmd.Path,
		cmd.Args[1]}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the working directory is gone") {
		t.Errorf("in %s: %v: %s", gone, err, out)
	}
	u.env = slices.DeleteFunc(u.env, func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	cmd = u.command()
	cmd.Args = cmd.Args[:2]
	out, err = cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "install.sh: HOME is not set\n  next: name the directory") {
		t.Errorf("without HOME: %v: %s", err, out)
	}
}

// TestOtherMachines has the machine be one for which there is no program, or lack a tool.
func TestOtherMachines(t *testing.T) {
	t.Parallel()
	r := newRelease("0.9.0")
	s := newSite(t, r)
	u := newUser(t, s, "curl")
	sum, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Fatal(err)
	}
	remove := func(name string) {
		t.Helper()
		if err := os.Remove(filepath.Join(u.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	remove("sha256sum")
	u.refused("nothing here computes a SHA-256")
	u.script("openssl", `[ "$1 $2 $3" = "dgst -sha256 -r" ] && exec `+sum+` --binary`)
	u.install()
	u.script("shasum", `[ "$1 $2" = "-a 256" ] && exec `+sum)
	u.install()
	u.script("shasum", "exit 1")
	u.refused("shasum -a 256 cannot compute")
	remove("gzip")
	u.refused("gzip is missing")

	u = newUser(t, s, "curl")
	r.files["checksums.txt"] = []byte("of other systems\n")
	for _, machine := range []struct{ uname, sysctl, want string }{
		{"MINGW64_NT-10.0 x86_64", "exit 1", "there is no program for MINGW64_NT-10.0 here"},
		{"Linux riscv64", "exit 1", "there is no program for riscv64"},
		{"Linux aarch64", "exit 1", "no program for linux_arm64"},
		{"Darwin x86_64", "exit 1", "no program for darwin_amd64"},
		{"Darwin x86_64", "echo 1", "no program for darwin_arm64"},
	} {
		system, arch, _ := strings.Cut(machine.uname, " ")
		u.script("uname", "case $1 in -s) echo "+system+" ;; -m) echo "+arch+" ;; esac")
		u.script("sysctl", machine.sysctl)
		u.refused(machine.want)
	}
}
