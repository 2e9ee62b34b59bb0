. ./server.sh

# An issuer on the loopback interface that signs in one person without a password: metadata, one RSA key, codes and ID tokens.
install -d -m 700 /root/issuer
openssl genrsa -out /root/issuer/key.pem 2048 2> /dev/null
cat > /root/issuer/issuer.py << 'END'
import base64, hashlib, http.server, json, secrets, subprocess, time, urllib.parse

URL = 'http://127.0.0.1:9000'
KEY = '/root/issuer/key.pem'
requests = {}


def encode(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b'=').decode()


def part(value):
    return encode(json.dumps(value).encode())


def openssl(*args, octets=b''):
    return subprocess.run(['openssl', *args], input=octets, stdout=subprocess.PIPE, check=True).stdout


def id_token(nonce):
    now = int(time.time())
    claims = {'iss': URL, 'aud': 'console', 'sub': 'flora', 'groups': ['plant-admins'], 'nonce': nonce,
              'iat': now, 'exp': now + 300}
    text = part({'typ': 'JWT', 'alg': 'RS256', 'kid': '1'}) + '.' + part(claims)
    return text + '.' + encode(openssl('dgst', '-sha256', '-sign', KEY, octets=text.encode()))


def keys():
    n = openssl('rsa', '-in', KEY, '-noout', '-modulus').decode().strip().split('=')[1]
    return {'keys': [{'kty': 'RSA', 'kid': '1', 'use': 'sig', 'n': encode(bytes.fromhex(n)), 'e': 'AQAB'}]}


def token(authorization, form):
    request = requests.pop(form['code'], None)
    challenge = encode(hashlib.sha256(form['code_verifier'].encode()).digest())
    if authorization != 'Basic ' + base64.b64encode(b'console:mYg4pHx7rQ2s').decode():
        return 401, {'error': 'invalid_client'}
    if request is None or challenge != request['code_challenge'] or form['redirect_uri'] != request['redirect_uri']:
        return 400, {'error': 'invalid_grant'}
    return 200, {'access_token': 'none', 'token_type': 'Bearer', 'id_token': id_token(request['nonce'])}


class Issuer(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value, **headers):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition('?')
        if path == '/authorize':
            request = dict(urllib.parse.parse_qsl(query))
            code = secrets.token_urlsafe()
            requests[code] = request
            back = urllib.parse.urlencode({'code': code, 'state': request['state']})
            self.answer(303, {}, Location=request['redirect_uri'] + '?' + back)
            return
        metadata = {'issuer': URL, 'jwks_uri': URL + '/keys', 'authorization_endpoint': URL + '/authorize',
                    'token_endpoint': URL + '/token'}
        self.answer(200, keys() if path == '/keys' else metadata)

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers['Content-Length'])).decode()))
        self.answer(*token(self.headers['Authorization'], form))


http.server.ThreadingHTTPServer(('127.0.0.1', 9000), Issuer).serve_forever()
END
cat > /etc/systemd/system/issuer.service << 'END'
[Service]
ExecStart=/usr/bin/python3 /root/issuer/issuer.py
END
systemctl start issuer
until curl -s -o /dev/null http://127.0.0.1:9000/keys; do sleep 0.1; done
