. ./server.sh

# An issuer on the loopback interface: metadata, one RSA key, and JWTs for one client.
install -d -m 700 /root/issuer
openssl genrsa -out /root/issuer/key.pem 2048 2> /dev/null
cat > /root/issuer/issuer.py << 'END'
import base64, http.server, json, subprocess, time, uuid

URL = 'http://127.0.0.1:9000'
KEY = '/root/issuer/key.pem'


def encode(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b'=').decode()


def part(value):
    return encode(json.dumps(value).encode())


def openssl(*args, octets=b''):
    return subprocess.run(['openssl', *args], input=octets, stdout=subprocess.PIPE, check=True).stdout


def jwt():
    now = int(time.time())
    header = {'typ': 'at+jwt', 'alg': 'RS256', 'kid': '1'}
    claims = {'iss': URL, 'aud': 'https://plants.example', 'sub': 'web-shop', 'client_id': 'web-shop',
              'scope': 'plants:create', 'iat': now, 'exp': now + 3600, 'jti': str(uuid.uuid4())}
    text = part(header) + '.' + part(claims)
    return text + '.' + encode(openssl('dgst', '-sha256', '-sign', KEY, octets=text.encode()))


def keys():
    n = openssl('rsa', '-in', KEY, '-noout', '-modulus').decode().strip().split('=')[1]
    return {'keys': [{'kty': 'RSA', 'kid': '1', 'use': 'sig', 'n': encode(bytes.fromhex(n)), 'e': 'AQAB'}]}


class Issuer(http.server.BaseHTTPRequestHandler):
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        metadata = {'issuer': URL, 'jwks_uri': URL + '/keys', 'token_endpoint': URL + '/token'}
        self.answer(keys() if self.path == '/keys' else metadata)

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        user = base64.b64decode(self.headers['Authorization'].removeprefix('Basic ')).decode()
        self.answer({'access_token': jwt()} if user == 'web-shop:JdxMIPPK6kvN' else {'error': 'invalid_client'})


http.server.ThreadingHTTPServer(('127.0.0.1', 9000), Issuer).serve_forever()
END
cat > /etc/systemd/system/issuer.service << 'END'
[Service]
ExecStart=/usr/bin/python3 /root/issuer/issuer.py
END
systemctl start issuer
until curl -s -o /dev/null http://127.0.0.1:9000/keys; do sleep 0.1; done
