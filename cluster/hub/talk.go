//go:build !nohub

package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Hubs share their records over their routes, in the system account, which no node can access: an invitation
// or a revocation at one hub holds at all of them. The protocol is written out here, as it needs less than a
// NATS client does.

// recordSubject is where hubs publish their records.
const recordSubject = "exthost.hub.record"

// maxLine bounds a line of the server's protocol.
const (
	maxLine      = 64 << 10
	writeTimeout = 5 * time.Second
)

// tell hands r to speak, replacing a record that has not been published yet.
func (h *Hub) tell(r *record) {
	data, err := json.Marshal(r)
	if err != nil || len(data) > maxPayload {
		h.log.Error("the other hubs are not told who is invited and who is revoked: the record is too large", "bytes",
			len(data))
		return
	}
	select {
	case <-h.told:
	default:
	}
	h.told <- data // never blocks: only follow sends
}

// talk exchanges records with the other hubs until ctx ends.
func (h *Hub) talk(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.converse(ctx)
		if ctx.Err() == nil {
			h.log.Warn("the hub does not hear from others who is invited and who is revoked; it tries again", "error",
				err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tellEach):
		}
	}
}

// converse exchanges records over one connection until it or ctx ends.
func (h *Hub) converse(ctx context.Context) error {
	conn, err := h.server.InProcessConn()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReaderSize(conn, maxLine)
	if err := h.introduce(conn, in); err != nil {
		return err
	}
	heard := make(chan error, 1)
	pings := make(chan struct{}, 1)
	go func() { heard <- h.hear(in, pings) }()
	err = h.speak(ctx, conn, heard, pings)
	conn.Close() // ends hear
	return errors.Join(err, <-heard)
}

// speak publishes the newest record every tellEach and answers pings.
func (h *Hub) speak(ctx context.Context, conn net.Conn, heard chan error, pings <-chan struct{}) error {
	tick := time.NewTicker(tellEach)
	defer tick.Stop()
	var newest []byte
	for {
		var out string
		select {
		case <-ctx.Done():
			return nil
		case err := <-heard:
			heard <- nil
			return err
		case <-pings:
			out = "PONG\r\n"
		case newest = <-h.told:
			out = publish(newest)
		case <-tick.C: // for a hub that has just started or reconnected
			out = publish(newest)
		}
		if err := write(conn, out); err != nil {
			return err
		}
	}
}

func publish(data []byte) string {
	if data == nil {
		return ""
	}
	return fmt.Sprintf("PUB %s %d\r\n%s\r\n", recordSubject, len(data), data)
}

func write(conn net.Conn, text string) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(conn, text)
	return err
}

// introduce authenticates as a user of the system account and subscribes to records.
func (h *Hub) introduce(conn net.Conn, in *bufio.Reader) error {
	line, err := readLine(in)
	if err != nil {
		return err
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	if err := json.Unmarshal([]byte(text), &info); err != nil || !ok {
		return fmt.Errorf("the server begins with %.80q", line)
	}
	k, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	key, err := k.PublicKey()
	if err != nil {
		return err
	}
	u := jwt.NewUserClaims(key)
	u.Name = "hub"
	u.Pub.Allow.Add(recordSubject)
	u.Sub.Allow.Add(recordSubject)
	user, err := u.Encode(h.files.system)
	if err != nil {
		return err
	}
	sig, err := k.Sign([]byte(info.Nonce))
	if err != nil {
		return err
	}
	connect, err := json.Marshal(map[string]any{
		"verbose":  false,
		"pedantic": false,
		"echo":     false,
		"lang":     "go",
		"version":  "1",
		"protocol": 1,
		"jwt":      user,
		"sig":      base64.RawURLEncoding.EncodeToString(sig),
	})
	if err != nil {
		return err
	}
	return write(conn, fmt.Sprintf("CONNECT %s\r\nSUB %s 1\r\n", connect, recordSubject))
}

// hear merges the records of other hubs until the connection ends.
func (h *Hub) hear(in *bufio.Reader, pings chan<- struct{}) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "PING":
			select {
			case pings <- struct{}{}:
			default:
			}
		case "-ERR":
			return fmt.Errorf("the server refuses: %s", rest)
		case "MSG":
			size, err := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
			if err != nil || size < 0 || size > maxPayload {
				return fmt.Errorf("the server says %.80q", line)
			}
			data := make([]byte, size+2)
			if _, err := io.ReadFull(in, data); err != nil {
				return err
			}
			h.take(bytes.TrimSpace(data))
		}
	}
}

// take merges a received record into the own file. follow notices the change.
func (h *Hub) take(data []byte) {
	other := new(record)
	err := json.Unmarshal(data, other)
	if err == nil {
		var left error
		err = h.files.change(func(r *record) (changed bool, _ error) {
			changed, left = r.merge(other)
			return changed, nil
		})
		err = errors.Join(err, left)
	}
	if err != nil {
		h.log.Warn("the hub does not take over who another hub says is invited and revoked", "error", err)
	}
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	return strings.TrimRight(string(line), "\r\n"), err
}
