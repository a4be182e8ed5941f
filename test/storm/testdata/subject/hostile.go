package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// hostile is what a bad extension does once it has shaken hands, with its ways to
// hear and to speak. Whatever returns goes on to read and not to answer.
var hostile = map[string]func(){
	"mute":       func() {}, // and it does not shake hands
	"hang":       func() {},
	"deaf":       func() { time.Sleep(time.Hour) },
	"stubborn":   func() { signal.Ignore(syscall.SIGTERM); time.Sleep(time.Hour) },
	"crash-loop": func() { time.Sleep(5 * time.Millisecond); os.Exit(3) }, // it was ready once
	"stdout-flood": func() {
		flood(os.Stdout, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"water"}}`)
	},
	"stderr-flood": func() { flood(os.Stderr, "E! water") },
	"noise": func() {
		answerEach(func(id []byte) { fmt.Printf("%s%s\n", strings.Repeat("npm WARN noise\n", 100), answer(id, `"x"`)) })
	},
	"huge-lines": func() {
		answerEach(func(id []byte) { fmt.Println(answer(id, `"`+strings.Repeat("x", 8<<20)+`"`)) })
	},
	"duplicates": func() { answerEach(func(id []byte) { fmt.Print(strings.Repeat(answer(id, `"x"`)+"\n", 1000)) }) },
	"late": func() {
		answerEach(func(id []byte) {
			late := answer(bytes.Clone(id), `"x"`)
			time.AfterFunc(time.Second, func() { fmt.Println(late) })
		})
	},
	"forks": func() {
		for range time.Tick(50 * time.Millisecond) {
			cmd := exec.Command("sleep", "2")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if cmd.Start() == nil {
				go cmd.Wait()
			}
		}
	},
	"spin": func() {
		for range 2 * runtime.NumCPU() {
			go func() {
				for n := 0; ; n++ {
				}
			}()
		}
	},
	"memory": func() {
		var held [][]byte
		for range time.Tick(20 * time.Millisecond) {
			if held = append(held, bytes.Repeat([]byte{1}, 4<<20)); len(held) == 128 {
				held = nil
			}
		}
	},
}

var requests = bufio.NewScanner(os.Stdin)

// misbehave shakes hands as a native extension and then does how.
func misbehave(how string) {
	requests.Buffer(nil, 1<<20)
	requests.Scan()
	if how != "mute" {
		fmt.Println(answer([]byte("0"),
			`{"server_version":"1.0.0","tools":[{"name":"echo","input_schema":{"type":"object"}},{"name":"wait","input_schema":{"type":"object"}}]}`))
	}
	hostile[how]()
	for requests.Scan() {
	}
}

func answerEach(f func(id []byte)) {
	for requests.Scan() {
		if _, after, ok := bytes.Cut(requests.Bytes(), []byte(`"id":`)); ok {
			id, _, _ := bytes.Cut(after, []byte(","))
			f(id)
		}
	}
}

func answer(id []byte, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func flood(f *os.File, line string) {
	chunk := bytes.Repeat([]byte(line+"\n"), 100)
	for {
		if _, err := f.Write(chunk); err != nil {
			return
		}
	}
}
