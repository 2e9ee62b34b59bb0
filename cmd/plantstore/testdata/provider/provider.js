// An OpenID Connect provider for a test: node provider.js PORT [REDIRECT-URI]. Port 0 is a free one. It prints its issuer.
// Only it uses the address 127.0.0.3, so the kernel gives the port of an ended provider to no other program.
// With a redirect URI it has the client of the console, and pages on which a person signs in with any password.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const redirect = process.argv[3];
const people = { flora: ['plant-admins', 'staff'], fauna: ['staff'] };
const server = createServer();
server.listen(Number(process.argv[2]), '127.0.0.3', () => {
  const issuer = `http://127.0.0.3:${server.address().port}`;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: randomUUID() };
  const provider = new Provider(issuer, {
    jwks: { keys: [key] },
    clients: [{
      client_id: 'web-shop',
      client_secret: 'JdxMIPPK6kvN',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: 'ES256',
    }, ...(redirect ? [{
      client_id: 'console',
      client_secret: 'Pil0sella: au%rantiaca+',
      grant_types: ['authorization_code'],
      redirect_uris: [redirect],
      response_types: ['code'],
      id_token_signed_response_alg: 'ES256',
    }] : [])],
    claims: { openid: ['sub'], groups: ['groups'] },
    conformIdTokenClaims: false,
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, groups: people[id] ?? [] }) }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: Boolean(redirect) },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, audience) => ({
          audience, scope: 'plants:create', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
