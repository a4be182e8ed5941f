package processtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ScriptVar is the variable with the script; a test binary that has it runs as a child.
const ScriptVar = "EXTHOST_TEST_SCRIPT"

// Verb implements a step of a script. args is the text after its name.
type Verb func(args string)

// Main must be called by TestMain. If [ScriptVar] is set, Main runs that script and exits
// with 0; otherwise it runs the tests: those of TestMain, or [Sharded] ones.
//
// A script is a list of steps separated by ";", each a verb and its arguments. own adds
// verbs to these:
//
//	out TEXT, err TEXT   write a line to stdout, stderr
//	raw TEXT             write TEXT to stderr, without newline, escapes as in Go
//	flood N TEXT         write TEXT N times to stderr, escapes as in Go
//	pid, env, args, cwd  write it to stdout, one item a line
//	read, eof            read one line of stdin, or all of it
//	ignore               ignore SIGTERM
//	fork A, B, C         start a process that runs steps A, B and C, on our stdout and stderr
//	daemon A, B, C       the same, in a new session
//	close                close stdout
//	hang                 do nothing for an hour
//	kill N               send signal N to this process
//	exit N               exit with status N
func Main(m interface{ Run() int }, own map[string]Verb) {
	script, ok := os.LookupEnv(ScriptVar)
	if !ok {
		os.Exit(m.Run())
	}
	stdin := bufio.NewReader(os.Stdin)
	for step := range strings.SplitSeq(script, ";") {
		name, args, _ := strings.Cut(strings.TrimSpace(step), " ")
		if run := own[name]; run != nil {
			run(args)
		} else {
			builtin(stdin, name, args)
		}
	}
	Exit(0)
}

// Script returns the executable and the environment that run script.
func Script(t testing.TB, script string) (path string, env []string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path, Env(script)
}

// Env returns the environment that makes the test binary run script.
func Env(script string) []string { return []string{ScriptVar + "=" + script} }

// Exit ends a process that runs a script. It skips the exit handlers of test binaries: the race detector would wait for
// a second, and the coverage report would go to stderr.
func Exit(code int) { syscall.Exit(code) }

func builtin(stdin *bufio.Reader, name, args string) {
	switch name {
	case "out":
		fmt.Println(args)
	case "err":
		fmt.Fprintln(os.Stderr, args)
	case "raw":
		io.WriteString(os.Stderr, unquote(args))
	case "flood":
		flood(args)
	case "pid":
		fmt.Println(os.Getpid())
	case "env":
		fmt.Println(strings.Join(slices.Sorted(slices.Values(os.Environ())), "\n"))
	case "args":
		fmt.Println(strings.Join(os.Args, "\n"))
	case "cwd":
		dir, _ := os.Getwd()
		fmt.Println(dir)
	case "read":
		stdin.ReadString('\n')
	case "eof":
		io.Copy(io.Discard, stdin)
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
	case "fork", "daemon":
		fork(args, name == "daemon")
	case "close":
		os.Stdout.Close()
	case "hang":
		time.Sleep(time.Hour)
	case "kill":
		self, _ := os.FindProcess(os.Getpid())
		self.Signal(syscall.Signal(number(args)))
		time.Sleep(time.Hour)
	case "exit":
		Exit(number(args))
	default:
		fmt.Fprintf(os.Stderr, "no such verb: %q\n", name)
		Exit(99)
	}
}

// flood writes in chunks of about the size of a pipe, as fast as possible.
func flood(args string) {
	count, text, _ := strings.Cut(args, " ")
	n, text := number(count), unquote(text)
	per := max(1, (64<<10)/len(text))
	chunk := []byte(strings.Repeat(text, per))
	for ; n > 0; n -= per {
		if _, err := os.Stderr.Write(chunk[:min(n, per)*len(text)]); err != nil {
			Exit(98)
		}
	}
}

// fork starts a grandchild and reaps it, so that it does not become a zombie while this
// process runs.
func fork(steps string, daemon bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), Env(strings.ReplaceAll(steps, ",", ";"))...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if daemon {
		newSession(cmd)
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		Exit(97)
	}
	go cmd.Wait()
}

func unquote(s string) string {
	text, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		panic(err)
	}
	return text
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
