package syscalls

import (
	"testing"

	"plantstore/faults/rig"
)

// TestAccept makes the first accepts of a server fail. The server keeps running, and accepts the connection later.
func TestAccept(t *testing.T) {
	prepare(t)
	for _, errno := range []string{"ENOMEM", "ENOBUFS", "EPERM", "EMFILE"} {
		t.Run(errno, func(t *testing.T) {
			t.Parallel()
			db := copyStore(t, storeClean)
			before := []string{
				"strace", "-f", "--seccomp-bpf", "-qq", "-o", t.TempDir() + "/trace", "-e", "trace=accept4",
				"-e", "inject=accept4:error=" + errno + ":when=1..3",
			}
			s, err := rig.Start(t, base.program, db, before)
			if err != nil {
				t.Fatal(err)
			}
			client := &rig.Client{Token: base.token}
			if outcome, status := client.Create(t.Context(), s.URL, -1, "A"); outcome != rig.Stored {
				t.Errorf("got %v, %d, want a stored plant", outcome, status)
			}
			stop(t, s)
			if code := s.ExitCode(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, s.Log())
			}
		})
	}
}
