package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// If the system gives no more watches, changes are found by polling, and the log and the status say so.
func TestNoMoreWatches(t *testing.T) {
	processtest.Leaks(t)
	const limited = "echo 1 >/proc/sys/user/max_inotify_watches && "
	if out, err := exec.Command("unshare", "-Ur", "sh", "-c", limited+"true").CombinedOutput(); err != nil {
		t.Skipf("no user namespace with limits of its own: %v %s", err, out)
	}
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	serve := program(dir, "serve", "--listen", "127.0.0.1:0", "--watch")
	serve.Args = append([]string{"unshare", "-Ur", "sh", "-c", limited + `exec "$@"`, "sh"}, serve.Args...)
	var err error
	if serve.Path, err = exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	said := &transcript{more: make(chan struct{}, 1)}
	serve.Stderr = said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}()
	said.await(t, "the system gives no more watches")
	if out, err := program(dir, "reload", "--watch", "status").Output(); err != nil ||
		!strings.Contains(string(out), "polling every two seconds: ") {
		t.Errorf("%s, %v", out, err)
	}
	changed := strings.Replace(kitManifest, "0.1.0", "0.2.0", 1)
	if err := os.WriteFile(filepath.Join(dir, "extensions/kit/plugin.toml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said.await(t, `"changed":["kit"]`)
	t.Logf("found after %v", time.Since(began))
}
