package lock

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost/internal/testing/benchtest"
)

// BenchmarkStart compares the start of a program from a package of 1,200 files, with and without verification.
// The program loads two files of each of 100 modules.
func BenchmarkStart(b *testing.B) {
	node, err := exec.LookPath("node")
	if err != nil {
		b.Skip("NOT MEASURED: node is missing")
	}
	p := newBench(b)
	tree, err := p.uses.Store.New()
	if err != nil {
		b.Fatal(err)
	}
	err = tree.Add("main.js", []byte("for (let i = 0; i < 1200; i += 6) require(`p${Math.floor(i / "+
		"12)}/f${i}`)\nconsole.log('up')\nprocess.stdin.resume()\n"))
	for i := range 1200 {
		err = errors.Join(err, tree.Add(fmt.Sprintf("node_modules/p%d/f%d.js", i/12, i),
			fmt.Appendf(nil, "module.exports = %d // %10000d\n", i, i)))
	}
	if err != nil {
		b.Fatal(err)
	}
	if p.tree, _, err = p.uses.Store.Put(tree); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = p.uses.Store.Remove(p.tree) })
	p.lock(p.dir, p.entry())
	locked, c := NewPackages(p.dir, p.uses), p.candidate()
	path, _, err := locked.Verify(c)
	if err != nil {
		b.Fatal(err)
	}
	start := func() error { // waits for the first output
		cmd := exec.Command(node, filepath.Join(path, "main.js"))
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, err = bufio.NewReader(out).ReadString('\n')
		return errors.Join(err, in.Close(), cmd.Wait())
	}
	benchtest.Load{Name: "start", Callers: 1, Calls: 10}.Compare(b, benchtest.Way{Name: "bare", Call: start},
		benchtest.Way{
			Name: "locked",
			Call: func() error {
				if _, _, err := locked.Verify(c); err != nil {
					return err
				}
				return start()
			},
		})
}
