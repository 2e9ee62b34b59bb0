package server

import (
	"net/http"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/writepath"
)

// plants implements the public operation.
type plants struct {
	store   *writepath.Store
	bodyMax int64 // bytes
}

// create handles POST {base_url}/plants.
func (p *plants) create(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	if err := checkContent(r.Header); err != nil {
		return err
	}
	n, err := p.decode(w, r)
	if err != nil {
		return err
	}
	replayed, err := p.store.Create(w.(*responseRecorder).span, principal, n)
	if err != nil {
		return err
	}
	if replayed {
		w.Header()["Idempotent-Replayed"] = []string{"true"}
	}
	buffer := getBuffer()
	defer putBuffer(buffer)
	buffer.b = append(n.Plant.AppendJSON(buffer.b[:0]), '\n')
	WriteJSON(w, http.StatusOK, buffer.b)
	return nil
}

// decode parses the plant in the body of a request.
func (p *plants) decode(w http.ResponseWriter, r *http.Request) (plant.NewPlant, error) {
	buffer := getBuffer()
	defer putBuffer(buffer)
	if err := buffer.read(w, r, p.bodyMax); err != nil {
		return plant.NewPlant{}, err
	}
	return plant.Decode(buffer.b)
}
