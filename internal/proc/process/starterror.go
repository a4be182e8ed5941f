package process

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
)

// Reason tells why a process could not be started.
type Reason string

// The reasons of a [StartError].
const (
	NotFound      Reason = "not_found"      // no such file, or no such name on PATH
	NotExecutable Reason = "not_executable" // the file may not be executed
	IsDirectory   Reason = "is_directory"   // the path names a directory
	// the interpreter of the #! line or the loader of the ELF header is missing
	BadInterpreter Reason = "bad_interpreter"
	CRLFShebang    Reason = "crlf_shebang" // the first line ends in CR LF
	BadFormat      Reason = "bad_format"   // neither a program for this machine nor a script with a #! line
	CwdMissing     Reason = "cwd_missing"  // the working directory is missing or cannot be entered
	ArgsTooBig     Reason = "args_too_big" // arguments and environment exceed the system's limit
	Busy           Reason = "busy"         // the file is open for writing
	Resource       Reason = "resource"     // out of descriptors, processes or memory
	Invalid        Reason = "invalid"      // the Spec is invalid, such as a NUL in an argument
	Isolation      Reason = "isolation"    // its pid namespace cannot be created
	Privileges     Reason = "privileges"   // it cannot be kept from gaining privileges
	Sandbox        Reason = "sandbox"      // its sandbox cannot be enforced here
	Other          Reason = "other"        // see Err
)

// errNoInit is the cause if there is no program for the init of a namespace.
var errNoInit = errors.New("its init is the exthost program, and this program was not told where that is")

// errNoProc is the cause if a pid namespace cannot get its own /proc, by which its processes are
// limited. A container whose /proc is masked allows none.
var errNoProc = errors.New("it gets no /proc of its own")

// errPrivilegedSandbox is the cause if NewPrivileges is set for a sandboxed child.
var errPrivilegedSandbox = errors.New("new_privileges is set for it, and a sandbox takes privileges away")

// StartError is the error of a process that could not be started. Its text ends with what the reader can do.
type StartError struct {
	Reason Reason
	// Path is the file that could not be started, or the command that was not found.
	Path string
	// Culprit is the file at fault if it is not Path: the interpreter of BadInterpreter, the directory of CwdMissing,
	// the program hidden by Sandbox.
	Culprit string
	// Err is the system's error.
	Err error
}

// Error returns the failure and what the reader can do.
func (e *StartError) Error() string {
	what, next := e.text()
	return fmt.Sprintf("cannot start %s: %s: %s", display.Escape(e.Path), what, next)
}

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// The variants of reasons that have a text of their own.
const (
	notOnPath         Reason = "not_on_path"
	noInit            Reason = "no_init"
	hiddenProgram     Reason = "hidden_program"
	privilegedSandbox Reason = "privileged_sandbox"
)

// startTexts tell what has happened and what the reader can do, with placeholders for Culprit and Err.
var startTexts = map[Reason]struct{ what, next string }{
	NotFound:  {"not found", "check the spelling, or build it first"},
	notOnPath: {"not found on PATH", "install it, or give its full path"},
	NotExecutable: {
		"not executable",
		"run chmod +x on it (and check that its file system is not mounted noexec), or start it through its " +
			"interpreter",
	},
	IsDirectory: {"is a directory", "name the program inside it"},
	BadInterpreter: {
		"its interpreter {quoted} cannot be run",
		"install it where PATH finds it, or correct the first line of the script",
	},
	CRLFShebang: {
		"its #! line ends in CR LF, so the system looks for {quoted}",
		"save the file with Unix line endings",
	},
	BadFormat: {
		"not a program for this system",
		"give a script a first line such as #!/bin/sh, or build it for this system and processor",
	},
	CwdMissing: {"its working directory {culprit} cannot be entered", "create it or correct cwd"},
	ArgsTooBig: {"arguments and environment are too big", "pass large data on stdin or in a file"},
	Busy:       {"the file is open for writing", "wait until its installation has finished and try again"},
	Resource: {
		"out of resources ({error})",
		"raise the limits of open files and processes (ulimit -n, ulimit -u) or run fewer extensions",
	},
	Invalid: {"invalid ({error})", "correct the command, its arguments and its environment"},
	Isolation: {
		"it cannot have a pid namespace ({error})",
		"allow user namespaces on this system (user.max_user_namespaces, " +
			"kernel.apparmor_restrict_unprivileged_userns, or the container's seccomp profile), " +
			`or set runtime.isolate = "none"`,
	},
	noInit: {
		"it cannot have a pid namespace ({error})",
		`tell the host where exthost is (Options.Self), or set runtime.isolate = "none"`,
	},
	Privileges: {
		"it cannot be kept from gaining privileges ({error})",
		"allow the system calls prctl, capget and capset in the seccomp profile of this host, or set " +
			"new_privileges = true for the extension or destination",
	},
	Sandbox: {
		"{error}",
		"run exthost check to see what this system enforces; best_effort = true in [sandbox] starts it with the " +
			`rest, and sandbox = "off" for the extension in the host's configuration without any`,
	},
	hiddenProgram: {
		"its sandbox does not let it run {culprit}",
		"add the folder of that program to read in [sandbox], or state the profile that has it (node, python, uv)",
	},
	privilegedSandbox: {"{error}", `remove new_privileges, or set sandbox = "off" for the extension`},
	Other:             {"{error}", "run the same command in a shell to see more"},
}

func (e *StartError) text() (what, next string) {
	t, known := startTexts[e.variant()]
	if !known {
		t = startTexts[Other]
	}
	values := strings.NewReplacer(
		"{quoted}", strconv.Quote(e.Culprit),
		"{culprit}", display.Escape(e.Culprit),
		"{error}", fmt.Sprint(e.Err),
	)
	return values.Replace(t.what), t.next
}

// variant returns the key of startTexts for e.
func (e *StartError) variant() Reason {
	switch {
	case e.Reason == NotFound && !strings.ContainsAny(e.Path, `/\`):
		return notOnPath
	case e.Reason == Isolation && errors.Is(e.Err, errNoInit):
		return noInit
	case e.Reason == Sandbox && e.Culprit != "":
		return hiddenProgram
	case e.Reason == Sandbox && errors.Is(e.Err, errPrivilegedSandbox):
		return privilegedSandbox
	}
	return e.Reason
}
