package stored_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/secrets/stored"
)

// behaviour is the variable that makes the test binary one of the programs below.
const behaviour = "STORED_TEST_PROGRAM"

// programs are commands that print secrets. Each gets the secret's name.
var programs = map[string]func(name string){
	"prints":        func(name string) { fmt.Print("value of " + name) },
	"ends the line": func(name string) { fmt.Println("value of " + name) },
	"two lines":     func(string) { fmt.Print("one\ntwo\r\n") },
	"nothing":       func(string) {},
	"a line alone":  func(string) { fmt.Println() },
	"zero":          func(string) { fmt.Print("can\x00ary") },
	"fails": func(string) {
		fmt.Print("canary")
		fmt.Fprintln(os.Stderr, "no such item\x1b[2J")
		os.Exit(3)
	},
	"floods": func(string) {
		for range 100 {
			if _, err := os.Stdout.WriteString(strings.Repeat("canary__", 1<<17)); err != nil {
				return
			}
		}
		select {}
	},
	"hangs": func(string) {
		fmt.Print("canary")
		select {}
	},
	"reads": func(string) { // ends when stdin is closed
		_, _ = os.Stdin.Read(make([]byte, 1))
		fmt.Print("read")
	},
	"leaves a child": func(string) {
		if _, err := os.StartProcess(os.Args[0], os.Args,
			&os.ProcAttr{Files: []*os.File{nil, os.Stdout, nil}, Env: []string{behaviour + "=hangs"}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	},
}

func TestMain(m *testing.M) {
	if run := programs[os.Getenv(behaviour)]; run != nil {
		time.AfterFunc(time.Minute, func() { os.Exit(9) })
		run(os.Args[len(os.Args)-1])
		return
	}
	os.Exit(m.Run())
}

// command returns a Command with one of the programs.
func command(name string, timeout time.Duration) stored.Command {
	return stored.Command{
		Argv:    []string{os.Args[0], "item", "{name}"},
		Env:     append(os.Environ(), behaviour+"="+name),
		Timeout: timeout,
	}
}
