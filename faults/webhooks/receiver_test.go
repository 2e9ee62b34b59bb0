package webhooks

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The environment of a receiver process.
const (
	ledgerVariable  = "WEBHOOK_LEDGER"
	addressVariable = "WEBHOOK_ADDRESS"
)

const (
	key    = "0123456789abcdef0123456789abcdef"
	secret = "whsec_" // and the key in base64
)

// event is a line of the ledger of a receiver.
type event struct {
	Plant    int64
	Name     string
	Erased   bool
	ID       string // webhook-id
	Accepted bool   // the receiver answers 200 after this line
	Fault    string // the event must not be delivered like this
}

// receiver is the state of a receiver process.
type receiver struct {
	mu      sync.Mutex
	ledger  *os.File       // guarded by mu
	running map[int64]bool // plants whose events it handles now; guarded by mu
}

// receive runs a receiver until it is killed. It appends each event to the ledger before it responds.
func receive(path string) {
	ledger, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	r := &receiver{ledger: ledger, running: map[int64]bool{}}
	l, err := net.Listen("tcp", os.Getenv(addressVariable))
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, r))
}

// ServeHTTP handles an event for a short time. It fails some events, and lets others wait longer than the timeout of
// the server, which then ends the request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	var plant struct {
		ID         int64
		Name, Type string
	}
	err = json.Unmarshal(body, &plant)
	e := event{
		Plant: plant.ID, Name: plant.Name, Erased: plant.Type == "plant.erased", ID: request.Header.Get("Webhook-Id"),
	}
	if err != nil || !signed(request.Header, body) {
		e.Fault = fmt.Sprintf("invalid: %v, %s, %v", err, body, request.Header)
	}
	r.mu.Lock()
	if r.running[e.Plant] && e.Fault == "" {
		e.Fault = "two deliveries at the same time"
		r.write(e)
	}
	r.running[e.Plant] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, e.Plant)
	}()
	wait := time.Duration(rand.Int64N(int64(100 * time.Millisecond)))
	if rand.IntN(200) == 0 {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
	case <-request.Context().Done(): // the server has ended or given up
		return
	}
	e.Accepted = rand.IntN(50) > 0
	r.mu.Lock()
	r.write(e)
	r.mu.Unlock()
	if !e.Accepted {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// write appends a line to the ledger. The caller has locked mu.
func (r *receiver) write(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.ledger.Write(append(line, '\n')) // in one call, so that a kill leaves no part of it
	}
	if err != nil {
		panic(err)
	}
}

// signed verifies the signature of a request.
func signed(h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	seconds, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() < time.Minute &&
		h.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// receiverProcess is a receiver that can be killed and started again.
type receiverProcess struct {
	t               testing.TB
	address, ledger string
	command         *exec.Cmd
}

func startReceiver(t testing.TB) *receiverProcess {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &receiverProcess{t: t, address: l.Addr().String(), ledger: filepath.Join(t.TempDir(), "ledger")}
	_ = l.Close() // the receiver listens on the address
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *receiverProcess) start() {
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(os.Environ(), ledgerVariable+"="+p.ledger, addressVariable+"="+p.address)
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL.
func (p *receiverProcess) kill() {
	_ = p.command.Process.Signal(syscall.SIGKILL)
	_ = p.command.Wait()
}

// events reads the ledger.
func (p *receiverProcess) events() (all []event) {
	f, err := os.Open(p.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			p.t.Fatalf("%v: %s", err, lines.Text())
		}
		all = append(all, e)
	}
	return all
}

// flags returns the settings of a server that delivers to the receiver.
func (p *receiverProcess) flags() []string {
	path := filepath.Join(p.t.TempDir(), "webhook.secret")
	text := secret + base64.StdEncoding.EncodeToString([]byte(key))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return []string{
		"--webhook-url", "http://" + p.address + "/events", "--webhook-secret-file", path, "--webhook-allow-private",
	}
}

// importPlants imports plants beside the servers.
func importPlants(t testing.TB, program, db string, first, n int64) {
	t.Helper()
	var lines strings.Builder
	for id := first; id < first+n; id++ {
		fmt.Fprintf(&lines, "{\"id\":%d,\"name\":%q}\n", id, nameOf(id))
	}
	command := exec.CommandContext(t.Context(), program, "import", "-", "--format", "jsonl", "--quiet", "--db", db)
	command.Stdin = strings.NewReader(lines.String())
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("import: %v\n%s", err, out)
	}
}

func nameOf(id int64) string { return fmt.Sprintf("Plant %d", id) }
