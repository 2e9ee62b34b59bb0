. ./server.sh
cat > /usr/sbin/sendmail << 'END'
#!/bin/sh
cat >> /home/reader/mail
END
chmod 755 /usr/sbin/sendmail
