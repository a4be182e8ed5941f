package installtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// static builds the program without libraries, as that of a release is, of the packages that other tests have compiled:
// only the linker differs.
var static = sync.OnceValues(func() (string, error) {
	dir, err := processtest.Build("-ldflags=-s -w -linkmode external -extldflags -static", "./cmd/exthost")
	return filepath.Join(dir, "exthost"), err
})

// needsRoots skips the test where it cannot have a root directory of its own.
func needsRoots(t *testing.T) {
	t.Helper()
	processtest.Optional(t)
	processtest.Needs(t, "unshare", "gcc", "git")
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: %s needs root and namespaces: %v: %s", t.Name(), err, out)
	}
}

// releaseScript runs a script of .ci/release and returns what it prints.
func releaseScript(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("../../../.ci/release", name), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestPackages makes the packages of a release. It installs each from nothing to the first call, upgrades it while
// calls run, and removes it; see .ci/release/installs.
func TestPackages(t *testing.T) {
	needsRoots(t)
	program, err := static()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, version := range []string{"0.1.0", "99.0.0"} {
		releaseScript(t, "packages", dir, program, version)
	}
	for format, needs := range map[string]string{"deb": "dpkg", "rpm": "rpm", "apk": "tar"} {
		t.Run(format, func(t *testing.T) { // one at a time: their hosts listen at the same address
			processtest.Needs(t, needs, "setpriv")
			file := func(version string) string {
				return filepath.Join(dir, fmt.Sprintf("exthost_%s_linux_%s.%s", version, runtime.GOARCH, format))
			}
			out := releaseScript(t, "installs", file("0.1.0"), file("99.0.0"))
			if !strings.HasSuffix(out, format+": all is well\n") {
				t.Error(out)
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, "calls meanwhile") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// TestImages makes the container images of a release twice, compares the bytes, and runs each from nothing to the first
// call by an OCI runtime, without a daemon. EXTHOST_IMAGES names a layout that is there already.
func TestImages(t *testing.T) {
	needsRoots(t)
	processtest.Needs(t, "umoci", "runc")
	layout := os.Getenv("EXTHOST_IMAGES")
	if layout == "" {
		program, err := static()
		if err != nil {
			t.Fatal(err)
		}
		layout = t.TempDir()
		again := t.TempDir()
		t.Log(strings.TrimSpace(releaseScript(t, "images", layout, "0.1.0", runtime.GOARCH+"="+program)))
		releaseScript(t, "images", again, "0.1.0", runtime.GOARCH+"="+program)
		if out, err := exec.Command("diff", "-r", layout, again).CombinedOutput(); err != nil {
			t.Errorf("two images of the same program: %v\n%s", err, out)
		}
	}
	var index struct {
		Manifests []struct{ Annotations map[string]string }
	}
	readJSON(t, filepath.Join(layout, "index.json"), &index)
	if len(index.Manifests) == 0 {
		t.Fatal("there are no images")
	}
	for _, m := range index.Manifests {
		tag := m.Annotations["org.opencontainers.image.ref.name"]
		t.Run(tag, func(t *testing.T) { runImage(t, layout, tag) })
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// bundledIn are the bundled extensions that run in an image with a variant, with a call and a part of its answer.
var bundledIn = map[string][3]string{
	"":       {"notes", "ext_notes_add text=milk", `"text":"milk"`},
	"python": {"calc", "ext_calc_calculate expression=6*7", "42"},
	"node":   {"dates", "ext_dates_between from=2026-01-01 to=2026-01-31", "30"},
}

// runImage unpacks an image and runs commands in it as its configuration says.
func runImage(t *testing.T, layout, tag string) {
	bundle := filepath.Join(t.TempDir(), "bundle")
	unpack := exec.Command("umoci", "unpack", "--image", layout+":"+tag, bundle)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(bundle, "rootfs", "bin", "sh")); err == nil {
		t.Error("the image has a shell")
	}
	_, variant, _ := strings.Cut(tag, "-")
	want, ok := bundledIn[variant]
	if !ok {
		t.Fatalf("nothing says what runs in %s", tag)
	}
	extensions, err := filepath.Abs("../../../extensions")
	if err != nil {
		t.Fatal(err)
	}
	call := slices.Concat([]string{"exthost", "call"}, strings.Fields(want[1]),
		[]string{"--extensions", "/extensions/" + want[0]})
	if out := contained(t, bundle, extensions, call); !strings.Contains(out, want[2]) {
		t.Errorf("%s: %s", call, out)
	}
	if out := contained(t, bundle, extensions, []string{"exthost", "--version"}); !strings.HasPrefix(out, "exthost ") {
		t.Error(out)
	}
}

// contained runs a command in a container: with the user, the environment and the directory of the image, without
// capabilities. Its files are read-only but for /state and /tmp, and extensions are at /extensions.
func contained(t *testing.T, bundle, extensions string, command []string) string {
	t.Helper()
	file := filepath.Join(bundle, "config.json")
	var spec map[string]any
	readJSON(t, file, &spec)
	process := spec["process"].(map[string]any)
	if user := process["user"].(map[string]any); user["uid"] != float64(10001) || user["gid"] != float64(10001) {
		t.Errorf("it runs as %v", user)
	}
	process["args"], process["terminal"], process["noNewPrivileges"] = command, false, true
	delete(process, "capabilities")
	delete(spec["linux"].(map[string]any), "resources") // control groups, which not every machine of tests has
	spec["root"].(map[string]any)["readonly"] = true
	mounts := slices.DeleteFunc(spec["mounts"].([]any), func(m any) bool {
		to := m.(map[string]any)["destination"]
		return to == "/sys/fs/cgroup" || to == "/state"
	})
	mount := func(to, kind, from string, options ...string) {
		mounts = append(mounts, map[string]any{"destination": to, "type": kind, "source": from, "options": options})
	}
	mount("/extensions", "bind", extensions, "rbind", "ro")
	mount("/state", "tmpfs", "tmpfs", "mode=0700", "uid=10001", "gid=10001")
	mount("/tmp", "tmpfs", "tmpfs", "mode=1777")
	spec["mounts"] = mounts
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "runc", "--root", t.TempDir(), "run", "--bundle", bundle,
		fmt.Sprintf("exthost-test-%d", os.Getpid()))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}
