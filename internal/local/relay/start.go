package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// startTimeout limits the start of a host until it accepts clients. Its extensions may take longer.
const startTimeout = 60 * time.Second

// report is the single line that a started host writes to stdout.
type report struct {
	Ready bool   `json:"ready"`
	Fault *Fault `json:"fault,omitempty"`
}

// Start runs argv as a launcher, a process that calls [Launch] to start a host, and waits for the host's [Report].
// The stderr of both processes is appended to the file log. The error is a *Fault if the host does not start.
//
// Launcher and host inherit turn as their stdin, and the host keeps it open until its [Report]. If the relay ends
// earlier, the next relay waits for this host instead of starting another.
func Start(ctx context.Context, argv []string, turn *os.File, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stderr, began, err := openLog(log)
	if err != nil {
		return err
	}
	defer stderr.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = turn, w, stderr, detached()
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })()
	line, err := bufio.NewReader(io.LimitReader(r, maxHello)).ReadBytes('\n')
	launched := cmd.Wait() // the launcher exits once it has started the host
	var said report
	switch {
	case ctx.Err() != nil:
		return &Fault{
			Text: fmt.Sprintf("the host in the background does not answer after %v", startTimeout),
			Hint: "exthost serve --stdio --own; " + log + " has its log",
			Code: 8,
		}
	case err == nil && json.Unmarshal(line, &said) == nil && said.Ready:
		return nil
	case said.Fault != nil:
		return said.Fault
	}
	text := "the host in the background has ended at once"
	if launched != nil {
		text = "no host could be started in the background: " + launched.Error()
	}
	if tail := readTail(stderr, began); tail != "" {
		text += "\n" + tail
	}
	return &Fault{Text: text, Hint: "exthost serve --stdio --own; " + log + " has its log", Code: 1}
}

// Launch starts argv as a host that outlives this process, its session and its terminal. The host inherits stdin,
// stdout and stderr. Launch does not wait for it.
func Launch(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// Report tells the relay that started this host whether the host accepts clients: err is nil, or the *Fault that
// prevents it. Report also ends the turn of [Start]. The relay may be gone.
func Report(err error) {
	said := report{Ready: err == nil}
	if f, ok := errors.AsType[*Fault](err); ok {
		said.Fault = f
	}
	data, err := json.Marshal(said)
	if err == nil {
		_, _ = os.Stdout.Write(append(data, '\n'))
	}
	leaveStdin()
}

// maxTail limits how much of the log of a failed host is shown, in bytes.
const maxTail = 4 << 10

// readTail returns the log from offset began, at most maxTail bytes.
func readTail(log *os.File, began int64) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	from := max(began, info.Size()-maxTail)
	text, _ := io.ReadAll(io.NewSectionReader(log, from, maxTail))
	return strings.TrimSpace(string(text))
}
