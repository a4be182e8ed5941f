package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/processtest"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// A watch records what the kernel refused, by whatever call, and nothing that was allowed or does not exist.
func TestWatch(t *testing.T) {
	processtest.Leaks(t)
	p := newPrey(t)
	place := sandbox.Place{Dir: p.folder, State: p.state, Private: []string{filepath.Dir(p.state)}}
	home := p.env[1][len("HOME="):]
	for _, tt := range []struct {
		script string
		want   []sandbox.Access
	}{
		{"cat $HOME/.ssh/id_rsa; cat $FOLDER/plugin.toml $HOME/none; echo x > $STATE/new; cat $STATE/new",
			[]sandbox.Access{{Path: home + "/.ssh/id_rsa"}}},
		{"cd $HOME && cat .bashrc; echo x >> .bashrc; echo x > $FOLDER/new",
			[]sandbox.Access{{p.folder, true}, {home + "/.bashrc", true}}},
		{"ls $HOME/.aws; mkdir $HOME/d; rm $HOME/doomed; mv $HOME/moved $STATE/moved; ln -s x $HOME/.ssh/link",
			[]sandbox.Access{{home, true}, {Path: home + "/.aws"}, {home + "/.ssh", true}}},
		{"ln -s $HOME/.aws/credentials $STATE/link; cat $STATE/link",
			[]sandbox.Access{{Path: home + "/.aws/credentials"}}},
		{"exec 3< $FOLDER/plugin.toml; cat /proc/self/fd/3 > /dev/null; exit 3", nil},
	} {
		policy, err := sandbox.Resolve(&ask.Table{Write: []string{"{state}"}}, place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.Check(); err != nil {
			t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
		}
		policy.Watch = new(sandbox.Watch)
		cmd := exec.Command("/bin/sh", "-c", tt.script)
		cmd.Dir, cmd.Env = p.folder, p.env
		reaped, err := process.Launch(process.Spec{Path: cmd.Path, Sandbox: policy}, cmd.Start)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
			t.Skipf("NOT TESTED: %s: %v", t.Name(), err) // already watched by another process, or the kernel is too old
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		reaped()
		var got []sandbox.Access
		for _, a := range policy.Watch.Refused() {
			if !isProc(a.Path) {
				got = append(got, a)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.script, diff)
		}
		os.Remove(p.state + "/link")
	}
}

func isProc(path string) bool { return len(path) > 5 && path[:6] == "/proc/" }
