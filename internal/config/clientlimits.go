package config

// Rate are the limits of clients.
type Rate struct {
	AuthFailures int
	PerSecond    int
	Concurrency  int
}
