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

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// leftBehind runs the extension with nobody to clean up after it: it is called
// once, if it may be, ended, and whoever is still in its session is its orphan.
func (s *subject) leftBehind(ctx context.Context) ([]string, error) {
	argv, err := runtime.CommandLine(&s.spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.workDir(), s.spec.Env, &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = io.WriteString(stdin, s.oneCall()) // it may have ended already
	stdin.Close()
	_ = cmd.Wait() // other probes judge how it ends
	return survivors(cmd.Process.Pid), nil
}

// oneCall is what a host says that makes a single call.
func (s *subject) oneCall() string {
	w := &wire{subject: s}
	lines := ""
	switch s.speaks {
	case manifest.ProtocolNative:
		lines = w.request("0", protocol.MethodInitialize, `{"protocol_version":1,"state_dir":`+string(rawjson.AppendText(nil, s.spec.StateDir))+`,"config":`+string(orEmpty(s.spec.Config))+`}`) + "\n"
	case manifest.ProtocolMCP:
		lines = w.request("0", protocol.MethodInitialize, `{"protocolVersion":"`+protocol.MCP20251125+`","capabilities":{},"clientInfo":{"name":"exthost","version":"0"}}`) + "\n" +
			`{"jsonrpc":"2.0","method":"` + protocol.MethodInitialized + `"}` + "\n"
	}
	if c, err := s.sample(); err == nil {
		lines += w.callLine("1", c, "") + "\n"
	}
	return lines
}

// survivors are the names of the living processes of a session, which are killed.
func survivors(session int) (names []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// pid (name) state ppid pgrp session …, where the name may hold anything
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
