package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func probeNotifications(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/exthost_check_unheard_of","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":987654321,"reason":"check"}}`,
		`{"jsonrpc":"2.0","id":987654321,"result":{}}`,
	} {
		if err := w.write(line); err != nil {
			return err
		}
	}
	if err := w.answers(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var said []string
	w.lapses = slices.DeleteFunc(w.lapses, func(l lapse) bool { // told here, and not again
		if l.unasked {
			said = append(said, l.text)
		}
		return l.unasked
	})
	if len(said) > 0 {
		return fmt.Errorf("it answers what is no request: %s", strings.Join(said, "\n"))
	}
	return nil
}

// answers asks something harmless and wants any answer.
func (w *wire) answers(ctx context.Context) error {
	_, err := w.ask(ctx, nowhere, "{}")
	return err
}

func probeExtraMembers(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	id := w.newID()
	answer := w.expect(id)
	line := w.request(id, protocol.MethodToolsList, `{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","exthost/check":[1]}}`)
	if err := w.write(strings.TrimSuffix(line, "}") + `,"exthost_check":{"later":true}}`); err != nil {
		return err
	}
	m, err := w.await(ctx, answer, "a request with a member that it cannot know")
	if err != nil {
		return err
	}
	if e := rpcError(m); e != nil && e.Code != jsonrpc.CodeMethodNotFound {
		return fmt.Errorf("a request with a member that it cannot know is refused: %s (%d)", e.Message, e.Code)
	}
	return nil
}

func probePieces(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	first, second := w.newID(), w.newID()
	one, two := w.expect(first), w.expect(second)
	text := w.request(first, nowhere, `{"é":"☃😀"}`) + "\n" + w.request(second, nowhere, "{}") + "\n"
	if s.speaks == manifest.ProtocolLite { // has one request at a time
		text, two = w.request(first, nowhere, `{"é":"☃😀"}`)+"\n", nil
	}
	middle := strings.Index(text, "☃") + 1 // within a character
	for _, piece := range []string{text[:middle], text[middle : middle+3], text[middle+3:]} {
		if err := w.writeRaw(piece); err != nil {
			return err
		}
	}
	if _, err := w.await(ctx, one, "a request in pieces"); err != nil || two == nil {
		return err
	}
	_, err = w.await(ctx, two, "the second of two requests in one piece")
	return err
}

func probeLarge(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	params := `{"exthost_check":"` + strings.Repeat("x", 1<<20) + `"}`
	_, err = w.ask(ctx, nowhere, params)
	return err
}

// crowd is how many requests are under way at once.
const crowd = 50

func probeConcurrency(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	c, sampleErr := s.sample()
	var text strings.Builder
	answers := make(map[string]chan jsonrpc.Message)
	for i := range crowd {
		id := w.newID()
		answers[id] = w.expect(id)
		if sampleErr == nil && i%2 == 0 {
			text.WriteString(w.callLine(id, c, "") + "\n")
		} else {
			text.WriteString(w.request(id, nowhere, "{}") + "\n")
		}
	}
	if err := w.writeRaw(text.String()); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		if _, err := w.await(ctx, answers[id], "one of "+fmt.Sprint(crowd)+" requests at once"); err != nil {
			return err
		}
	}
	if sampleErr != nil {
		return passf("with no call among them, since nothing may be called")
	}
	return nil
}

func probeAlive(ctx context.Context, s *subject) error {
	if s.talk == nil || s.talk.dead() {
		return errors.New("the child that was asked all this has ended meanwhile")
	}
	return s.talk.answers(ctx)
}
