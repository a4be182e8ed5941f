package check

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// orphans runs the extension without containment, makes one call if allowed, closes stdin
// and returns the names of the processes left in its session.
func (s *subject) orphans(ctx context.Context) ([]string, error) {
	spec, err := s.spec.Resolved(ctx)
	if err != nil {
		return nil, err
	}
	argv, err := spec.CommandLine()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = spec.WorkDir(), spec.Env, &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	reaped, err := process.Launch(process.Spec{
		Path:          argv[0],
		NewPrivileges: s.spec.NewPrivileges,
		Sandbox:       s.spec.Sandbox,
	}, cmd.Start)
	if err != nil {
		return nil, err
	}
	defer reaped()
	timer := time.AfterFunc(rawclient.Timeout, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = io.WriteString(stdin, s.oneCall()) // fails when the process has ended
	stdin.Close()
	_ = cmd.Wait() // other probes check the exit status
	return killSession(cmd.Process.Pid), nil
}

// oneCall returns the input of a session with a single call.
func (s *subject) oneCall() string {
	c := s.newClient()
	lines := ""
	switch s.protocol {
	case manifest.ProtocolNative:
		lines = c.Request("0", protocol.MethodInitialize,
			`{"protocol_version":1,"state_dir":`+string(rawjson.AppendText(nil, s.spec.StateDir))+`,"config":`+
				string(rawclient.OrEmpty(s.spec.Config))+`}`) + "\n"
	case manifest.ProtocolMCP:
		lines = c.Request("0", protocol.MethodInitialize,
			`{"protocolVersion":"`+protocol.MCP20251125+
				`","capabilities":{},"clientInfo":{"name":"exthost","version":"0"}}`) + "\n" +
			`{"jsonrpc":"2.0","method":"` + protocol.MethodInitialized + `"}` + "\n"
	}
	if call, err := s.sample(); err == nil {
		lines += c.CallRequest("1", call.Tool, call.Arguments, "") + "\n"
	}
	return lines
}

// killSession kills the processes of a session and returns their names.
func killSession(session int) (names []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid pgrp session …, where the name may contain any character
		text := string(data)
		open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		fields := strings.Fields(text[max(end+1, 0):])
		if open < 0 || len(fields) < 4 || fields[0] == "Z" || fields[3] != strconv.Itoa(session) {
			continue
		}
		names = append(names, text[open+1:end])
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return names
}
