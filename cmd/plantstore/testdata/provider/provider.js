// An OpenID Connect provider for a test: node provider.js PORT. Port 0 is a free one. It prints its issuer.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const server = createServer();
server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
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
    }],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
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
